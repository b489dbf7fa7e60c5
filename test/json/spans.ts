/** A plain reader of JSON to compare `src/json/` with. It expects valid JSON. */

/** Where a value is in a text, without the white space around it; `end` is exclusive. */
interface Span {
  start: number
  end: number
}

export interface Member extends Span {
  name: string
}

/** Strings, brackets, and other runs of characters. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/** The members of the object in a text, in order, including duplicate names. */
export function members(text: string): Member[] {
  return parts(text).map(([name, colon, ...value]) => {
    if (name === undefined || colon?.[0] !== ':') throw new TypeError('no object')
    return { name: JSON.parse(name[0]) as string, ...findSpan(value) }
  })
}

/** The levels of objects and arrays in a text. */
export function measureDepth(text: string): number {
  let [deepest, depth] = [0, 0]
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') deepest = Math.max(deepest, ++depth)
    else if (token === '}' || token === ']') depth--
  }
  return deepest
}

/** The tokens of a container's members or elements. */
function parts(text: string): RegExpMatchArray[][] {
  const found: RegExpMatchArray[][] = []
  let depth = 0
  for (const token of [...text.matchAll(TOKEN)].slice(1, -1)) {
    if (token[0] === '}' || token[0] === ']') depth--
    if (depth === 0 && token[0] === ',') found.push([])
    else if (found.length === 0) found.push([token])
    else found.at(-1)?.push(token)
    if (token[0] === '{' || token[0] === '[') depth++
  }
  return found
}

function findSpan(tokens: readonly RegExpMatchArray[]): Span {
  const [first, last] = [tokens[0], tokens.at(-1)]
  if (first?.index === undefined || last?.index === undefined) throw new TypeError('no value')
  return { start: first.index, end: last.index + last[0].length }
}
