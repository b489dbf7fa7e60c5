import { formatExactJson } from './exact-json.js'

/** Whether two values have the same JSON; the order of fields counts. */
export function isSameJson(one: unknown, other: unknown): boolean {
  return formatExactJson(one) === formatExactJson(other)
}
