/**
 * Finds the parts of a JSON text without parsing their values. JSON.parse loses the spelling of a value (`1.0`, `1e400`,
 * integers beyond 2^53, escapes) and the order of the names; properties are stored as the text that the client sent.
 *
 * Every text passed to these functions must be valid JSON. For any other text the result is undefined.
 * Scanning takes time linear in the text. Nesting of any depth is safe, since values are skipped by counting brackets.
 */

/** The place of a value in the text, without the white space around it; `end` is exclusive. */
export interface Span {
  start: number
  end: number
}

/** A member of an object: its name with the escapes resolved, and the place of its value. */
export interface Member extends Span {
  name: string
}

// Not from bytes.ts, which says why.
const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/**
 * The members of the object at `at`, in the order of the text, duplicate names included.
 * @throws TypeError if the value at `at` is not an object
 */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = []
  let i = enter(text, at, OPEN_BRACE)
  while (text.charCodeAt(i) !== CLOSE_BRACE) {
    const nameEnd = stringEnd(text, i)
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    found.push({ name: decoded(text, i, nameEnd), start, end })
    i = next(text, end)
  }
  return found
}

/**
 * The elements of the array at `at`.
 * @throws TypeError if the value at `at` is not an array
 */
export function elements(text: string, at = 0): Span[] {
  const found: Span[] = []
  let i = enter(text, at, OPEN_BRACKET)
  while (text.charCodeAt(i) !== CLOSE_BRACKET) {
    const end = valueEnd(text, i)
    found.push({ start: i, end })
    i = next(text, end)
  }
  return found
}

/**
 * The texts of the elements of the array at `at`.
 * @throws TypeError if the value at `at` is not an array
 */
export function elementTexts(text: string, at = 0): string[] {
  return elements(text, at).map(({ start, end }) => text.slice(start, end))
}

/**
 * The members of an object: name → the text of its value, in the order in which the names first appear. The last value of
 * a duplicate name wins.
 * @throws TypeError if the text is not an object
 */
export function memberTexts(text: string): Map<string, string> {
  const found = new Map<string, string>()
  let i = enter(text, 0, OPEN_BRACE)
  while (text.charCodeAt(i) !== CLOSE_BRACE) {
    const nameEnd = stringEnd(text, i)
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    found.set(decoded(text, i, nameEnd), text.slice(start, end))
    i = next(text, end)
  }
  return found
}

/**
 * The text of an object without some of its members; everything else stays byte for byte.
 * @param isCut by the member's name, and the text of its value
 * @throws TypeError if the text is not an object
 */
export function withoutMembers(text: string, isCut: (name: string, value: string) => boolean): string {
  let kept = ''
  /** up to where the text is decided */
  let from = 0
  let isFirst = true
  let at = enter(text, 0, OPEN_BRACE)
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    const nameEnd = stringEnd(text, at)
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    const after = next(text, end)
    if (isCut(decoded(text, at, nameEnd), text.slice(start, end))) {
      const isLast = text.charCodeAt(after) === CLOSE_BRACE
      // With the comma behind it; of the last one, with the comma before it.
      kept += text.slice(from, at)
      if (isLast && !isFirst) kept = kept.replace(/,\s*$/, '')
      from = isLast ? end : after
    } else {
      isFirst = false
    }
    at = after
  }
  return kept + text.slice(from)
}

/** The number of values in a text, itself included, at any depth; an empty object or array may count twice. */
export function countValues(text: string): number {
  let count = 1
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(text, i) - 1
        break
      case COMMA:
      case OPEN_BRACE:
      case OPEN_BRACKET:
        count++
    }
  }
  return count
}

/** The levels of objects and arrays in a text; 0 for any other value. */
export function depthOf(text: string): number {
  let deepest = 0
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(text, i) - 1
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (++depth > deepest) deepest = depth
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
    }
  }
  return deepest
}

/**
 * The text of a member's value, or undefined if the object at `at` has no such member. The last of several wins, as with
 * JSON.parse.
 * @throws TypeError if the value at `at` is not an object
 */
export function memberText(text: string, name: string, at = 0): string | undefined {
  const member = members(text, at).findLast((candidate) => candidate.name === name)
  return member && text.slice(member.start, member.end)
}

/** Whether the text of a value is that of a number. */
export function isNumber(text: string): boolean {
  return /^[-\d]/.test(text)
}

/** Whether the text of a value is that of an array. */
export function isArray(text: string): boolean {
  return text.charCodeAt(0) === OPEN_BRACKET
}

/** The offset of the first member or element, or of the closing bracket. */
function enter(text: string, at: number, bracket: number): number {
  const start = skipSpace(text, at)
  if (text.charCodeAt(start) !== bracket) {
    throw new TypeError(`no ${bracket === OPEN_BRACKET ? 'array' : 'object'} at ${start}`)
  }
  return skipSpace(text, start + 1)
}

/** The offset of the next member or element after a value, or of the closing bracket. */
export function next(text: string, end: number): number {
  const i = skipSpace(text, end)
  return text.charCodeAt(i) === COMMA ? skipSpace(text, i + 1) : i
}

/** White space is space, tab, line feed and carriage return; valid JSON has no other character below 0x21 here. */
export function skipSpace(text: string, at: number): number {
  let i = at
  while (text.charCodeAt(i) <= 0x20) i++
  return i
}

export function valueEnd(text: string, start: number): number {
  switch (text.charCodeAt(start)) {
    case QUOTE:
      return stringEnd(text, start)
    case OPEN_BRACE:
    case OPEN_BRACKET:
      return containerEnd(text, start)
    default:
      return literalEnd(text, start)
  }
}

function containerEnd(text: string, start: number): number {
  let depth = 0
  let i = start
  do {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(text, i)
        continue
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
    }
    i++
  } while (depth > 0)
  return i
}

/** A quote closes the string unless an odd number of backslashes precedes it. */
export function stringEnd(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let i = quote
    while (text.charCodeAt(i - 1) === BACKSLASH) i--
    if ((quote - i) % 2 === 0) return quote + 1
  }
  throw new TypeError(`the string at ${start} has no end`)
}

function literalEnd(text: string, start: number): number {
  let i = start
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code === COMMA || code === CLOSE_BRACKET || code === CLOSE_BRACE) break
  }
  return i
}

/** The value of the string literal from `start` to `end`. */
function decoded(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1)
  return inner.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : inner
}
