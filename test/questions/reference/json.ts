/**
 * A JSON value as questions see it. JSON.parse is not enough: the first of duplicate names counts. A number is a
 * double, and 1e400 is infinity.
 */
export type Value = null | boolean | number | string | Value[] | ReadonlyMap<string, Value>

const SPACE = /[ \t\n\r]*/y
const STRING = /"(?:[^"\\]|\\.)*"/y
const WORD = /true|false|null|-?[0-9][-+0-9.eE]*/y

export function parseJson(text: string): Value {
  let at = 0
  const take = (pattern: RegExp) => {
    pattern.lastIndex = at
    const [found = ''] = pattern.exec(text) ?? []
    at += found.length
    return found
  }
  const skip = (character: string) => {
    take(SPACE)
    if (text[at] !== character) return false
    at++
    take(SPACE)
    return true
  }
  const value = (): Value => {
    take(SPACE)
    if (skip('{')) return members()
    if (skip('[')) return elements()
    // JSON.parse decodes escapes, and keeps unpaired surrogates.
    if (text[at] === '"') return JSON.parse(take(STRING))
    const word = take(WORD)
    if (word === '') throw new Error(`no JSON at ${at}: ${text}`)
    return JSON.parse(word)
  }
  const members = () => {
    const found = new Map<string, Value>()
    while (!skip('}')) {
      skip(',')
      const name = value() as string
      if (!skip(':')) throw new Error(`no colon at ${at}: ${text}`)
      const member = value()
      if (!found.has(name)) found.set(name, member)
    }
    return found
  }
  const elements = () => {
    const found: Value[] = []
    while (!skip(']')) {
      skip(',')
      found.push(value())
    }
    return found
  }
  return value()
}

/** The canonical text of a value: equal values have equal texts. Infinity is 1e400, and -0 is 0. */
export function jsonText(value: Value): string {
  if (typeof value === 'number' && !Number.isFinite(value)) return value > 0 ? '1e400' : '-1e400'
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  if (value instanceof Map) {
    return `{${[...value].map(([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`).join(',')}}`
  }
  return JSON.stringify(value)
}

export function areEqual(a: Value, b: Value): boolean {
  return jsonText(a) === jsonText(b)
}

/** The order of texts: by their bytes in UTF-8. */
export function compareTexts(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
