import type { Question } from '../contract/questions.js'

/** A regular expression in a question, and where. */
export interface Pattern {
  /** a JSON pointer */
  path: string
  pattern: string
}

/** The regular expressions of all filters of a question. */
export function findPatterns(question: Question): Pattern[] {
  return patternsIn(question, '')
}

function patternsIn(value: unknown, path: string): Pattern[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && value[0] === 'matches' && value.length === 3) {
    return [value[2]].flat().flatMap((pattern: unknown, i, { length }) => {
      return typeof pattern === 'string' ? [{ path: length > 1 ? `${path}/2/${i}` : `${path}/2`, pattern }] : []
    })
  }
  return Object.entries(value).flatMap(([name, member]) => patternsIn(member, `${path}/${name}`))
}
