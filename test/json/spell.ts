import fc from 'fast-check'

/** Spells a value with the given white space around every token; a string is escaped if the space is not empty. */
export function spell(value: unknown, spaces: string[]): string {
  let used = 0
  const space = () => spaces[used++ % spaces.length] ?? ''
  const string = (text: string) => {
    if (space() === '') return JSON.stringify(text)
    const escapes = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i).toString(16).padStart(4, '0'))
    return `"${escapes.map((code) => `\\u${code}`).join('')}"`
  }
  const write = (part: unknown): string => {
    let text: string
    if (typeof part === 'string') text = string(part)
    else if (Array.isArray(part)) text = `[${space()}${part.map(write).join(',')}]`
    else if (typeof part === 'object' && part !== null) {
      const all = Object.entries(part).map(([name, inner]) => `${space()}${string(name)}${space()}:${write(inner)}`)
      text = `{${space()}${all.join(',')}}`
    } else text = JSON.stringify(part)
    return space() + text + space()
  }
  return write(value)
}

/** White space around the tokens of a text. */
export const spaces = fc.array(fc.constantFrom('', ' ', '\n', '\t ', '\r\n'), { minLength: 1 })
export const value = fc.jsonValue({ maxDepth: 4 })
