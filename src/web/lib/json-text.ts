/** Delimiters of strings, objects and arrays. */
const STRUCTURE = /["[\]{}]/g
const SCALAR = /[^\s,\]}]+/y
const GAP = /[\s,:]*/y

/**
 * The source text of each member of an object, by name, because `JSON.parse` would change numbers. The last of
 * duplicate names wins, as in JavaScript.
 * @param text of a valid JSON object
 */
export function readMembers(text: string): Map<string, string> {
  const members = new Map<string, string>()
  let at = skipGap(text, text.indexOf('{') + 1)
  while (at < text.length && text[at] !== '}') {
    const nameEnd = findStringEnd(text, at)
    const start = skipGap(text, nameEnd)
    const end = findValueEnd(text, start)
    members.set(JSON.parse(text.slice(at, nameEnd)), text.slice(start, end))
    at = skipGap(text, end)
  }
  return members
}

/** The source text of each element of an array. @param text of a valid JSON array */
export function readElements(text: string): string[] {
  const elements: string[] = []
  let at = skipGap(text, text.indexOf('[') + 1)
  while (at < text.length && text[at] !== ']') {
    const end = findValueEnd(text, at)
    elements.push(text.slice(at, end))
    at = skipGap(text, end)
  }
  return elements
}

/**
 * Returns the offset after the string that begins at `start`. A regular expression would overflow the stack with
 * strings of a million characters.
 */
function findStringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '"') return at + 1
    if (text[at] === '\\') at++
  }
  throw createSyntaxError()
}

function findValueEnd(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return findStringEnd(text, start)
  if (first !== '{' && first !== '[') return matchAt(SCALAR, text, start)
  let depth = 0
  STRUCTURE.lastIndex = start
  for (let found = STRUCTURE.exec(text); found; found = STRUCTURE.exec(text)) {
    const [token] = found
    if (token === '"') STRUCTURE.lastIndex = findStringEnd(text, found.index)
    else if (token === '{' || token === '[') depth++
    else depth--
    if (depth === 0) return STRUCTURE.lastIndex
  }
  throw createSyntaxError()
}

function skipGap(text: string, start: number): number {
  return matchAt(GAP, text, start)
}

function matchAt(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start
  if (!pattern.test(text)) throw createSyntaxError()
  return pattern.lastIndex
}

function createSyntaxError(): SyntaxError {
  return new SyntaxError('the text is not JSON')
}

/** A record and the source text of its properties. */
export type Exact<T> = T & { text: string }

/** @param text the JSON of a record as the service sends it */
export function parseExact<T>(text = '{}'): Exact<T> {
  return { ...JSON.parse(text), text: readMembers(text).get('properties') ?? '{}' }
}

/** @param text the JSON of an array of records */
export function parseAllExact<T>(text = '[]'): Exact<T>[] {
  return readElements(text).map((element) => parseExact<T>(element))
}

/** Parses JSON; undefined if the text is not valid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const TOKEN = /\s+|[{[]\s*[\]}]|[^\s"{}[\],:]+|./gs

/** Indents a JSON text without changing its tokens: parsing would change large numbers and drop duplicate names. */
export function indentJson(text: string): string {
  let depth = 0
  const line = () => `\n${'  '.repeat(depth)}`
  const layOut = (token: string) => {
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
    if (token === '"') TOKEN.lastIndex = findStringEnd(text, found.index)
    result += token === '"' ? text.slice(found.index, TOKEN.lastIndex) : layOut(token)
  }
  return result
}
