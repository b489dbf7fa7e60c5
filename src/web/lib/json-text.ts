/** What opens and closes strings, objects and arrays. */
const STRUCTURE = /["[\]{}]/g
const SCALAR = /[^\s,\]}]+/y
const GAP = /[\s,:]*/y

/**
 * The values of an object's members as they are spelled, by name, as `JSON.parse` would change numbers. Of several members
 * with one name it is the last, as everywhere in JavaScript.
 * @param text of a valid JSON object
 */
export function memberTexts(text: string): Map<string, string> {
  const members = new Map<string, string>()
  let at = gapEnd(text, text.indexOf('{') + 1)
  while (at < text.length && text[at] !== '}') {
    const nameEnd = stringEnd(text, at)
    const start = gapEnd(text, nameEnd)
    const end = valueEnd(text, start)
    members.set(JSON.parse(text.slice(at, nameEnd)), text.slice(start, end))
    at = gapEnd(text, end)
  }
  return members
}

/** The elements of an array as they are spelled. @param text of a valid JSON array */
export function elementTexts(text: string): string[] {
  const elements: string[] = []
  let at = gapEnd(text, text.indexOf('[') + 1)
  while (at < text.length && text[at] !== ']') {
    const end = valueEnd(text, at)
    elements.push(text.slice(at, end))
    at = gapEnd(text, end)
  }
  return elements
}

/**
 * The position behind the string that begins at `start`. Not by a regular expression: one that matches a string of some
 * million characters overflows its stack.
 */
export function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '"') return at + 1
    if (text[at] === '\\') at++
  }
  throw notJson()
}

function valueEnd(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return stringEnd(text, start)
  if (first !== '{' && first !== '[') return matchEnd(SCALAR, text, start)
  let depth = 0
  STRUCTURE.lastIndex = start
  for (let found = STRUCTURE.exec(text); found; found = STRUCTURE.exec(text)) {
    const [token] = found
    if (token === '"') STRUCTURE.lastIndex = stringEnd(text, found.index)
    else if (token === '{' || token === '[') depth++
    else depth--
    if (depth === 0) return STRUCTURE.lastIndex
  }
  throw notJson()
}

function gapEnd(text: string, start: number): number {
  return matchEnd(GAP, text, start)
}

function matchEnd(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start
  if (!pattern.test(text)) throw notJson()
  return pattern.lastIndex
}

function notJson(): SyntaxError {
  return new SyntaxError('the text is not JSON')
}

const TOKEN = /\s+|[{[]\s*[\]}]|[^\s"{}[\],:]+|./gs

/**
 * A JSON text with line breaks and indents, its tokens as they are: parsing would change numbers beyond doubles and names
 * that are there twice.
 */
export function indented(text: string): string {
  let depth = 0
  const line = () => `\n${'  '.repeat(depth)}`
  const laidOut = (token: string) => {
    if (/^\s+$/.test(token)) return ''
    if (token.length > 1) return token.replaceAll(/\s/g, '')
    if (token === '{' || token === '[') {
      depth++
      return token + line()
    }
    if (token === '}' || token === ']') {
      depth = Math.max(0, depth - 1)
      return line() + token
    }
    if (token === ',') return token + line()
    return token === ':' ? ': ' : token
  }
  let result = ''
  TOKEN.lastIndex = 0
  for (let found = TOKEN.exec(text); found; found = TOKEN.exec(text)) {
    const [token] = found
    if (token === '"') TOKEN.lastIndex = stringEnd(text, found.index)
    result += token === '"' ? text.slice(found.index, TOKEN.lastIndex) : laidOut(token)
  }
  return result
}
