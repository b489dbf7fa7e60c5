/** Whether two values have the same JSON; the order of fields counts. */
export function isSameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
