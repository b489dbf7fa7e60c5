import { stringEnd } from './exact.js'

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
