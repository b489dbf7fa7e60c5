import { type Operator, splitField } from '../contract/filters.js'
import { SESSION } from '../contract/question-schemas.js'
import type { AnyQuestion, Filter } from '../contract/questions.js'
import type { Warning } from '../contract/warning.js'
import { listDefinitions } from './names-used.js'

/**
 * Warns of filters that no session passes, in a question about sessions: it would count none of them. A filter for
 * sessions alone that uses properties is not reported here, but where it uses them.
 * @param path of the question in the request
 */
export function warnOfSessionsLeftOut(question: AnyQuestion, path: string): Warning[] {
  const definitions = listDefinitions(question, path)
  const ofSessions = definitions.filter(({ definition }) => definition.event === SESSION)
  if (ofSessions.length === 0) return []
  const isAlone = question.kind !== 'paths' && ofSessions.length === definitions.length
  const filters = [
    { path: `${path}/where`, filter: question.where, isAlone },
    ...ofSessions.map(({ definition, path }) => ({ path: `${path}/where`, filter: definition.where, isAlone: true })),
  ]
  return filters.flatMap(({ path, filter, isAlone }) => {
    if (filter === null || passes(filter, isAlone) !== false) return []
    const message = `No session passes this filter: a session has no properties, and is the event “${SESSION}”. To keep sessions, use ["or", [["is", "event", ["${SESSION}"]], …]].`
    return [{ path, message }]
  })
}

/**
 * Whether sessions pass a filter; null if that depends on the session.
 * @param isAlone whether the filter is for sessions alone
 */
function passes(filter: Filter, isAlone: boolean): boolean | null {
  switch (filter[0]) {
    case 'and':
    case 'or': {
      const deciding = filter[0] === 'or'
      const parts = filter[1].map((one) => passes(one, isAlone))
      return parts.includes(deciding) ? deciding : parts.includes(null) ? null : !deciding
    }
    case 'not':
      return negate(passes(filter[1], isAlone))
    case 'session_has':
      return null
  }
  const [operator, field, compared] = filter
  const [source] = splitField(field)
  if (source === 'event') return compare(operator, SESSION, compared)
  return source === 'properties' && !isAlone ? compare(operator, null, compared) : null
}

function compare(operator: Operator, value: string | null, compared: unknown): boolean | null {
  const texts = [compared].flat().filter((one) => typeof one === 'string')
  const some = (test: (text: string) => boolean) => value !== null && texts.some(test)
  switch (operator) {
    case 'is':
      return [compared].flat().includes(value)
    case 'is_not':
      return negate(compare('is', value, compared))
    case 'set':
      return value !== null
    case 'not_set':
      return value === null
    case 'contains':
      return some((text) => SESSION.includes(text))
    case 'not_contains':
      return negate(compare('contains', value, compared))
    case 'starts_with':
      return some((text) => SESSION.startsWith(text))
    case 'ends_with':
      return some((text) => SESSION.endsWith(text))
    default:
      return value === null ? false : null
  }
}

function negate(passed: boolean | null): boolean | null {
  return passed === null ? null : !passed
}
