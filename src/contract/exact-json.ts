/**
 * Like JSON.stringify, but infinite numbers become `1e400` and `-1e400`, which JSON.parse reads as infinite, instead of
 * null.
 * @param indent spaces for each level; default: everything is in one line
 */
export function formatExactJson(value: unknown, indent?: number): string {
  const isInfinite = (one: unknown) => one === Number.POSITIVE_INFINITY || one === Number.NEGATIVE_INFINITY
  let hasInfinite = false
  const find = (_: string, one: unknown) => {
    hasInfinite ||= isInfinite(one)
    return one
  }
  const text = JSON.stringify(value, find, indent)
  if (!hasInfinite) return text
  let mark: string
  // Random, because a text of an event could otherwise be made to contain it.
  do mark = `infinite ${Math.random()}`
  while (text.includes(mark))
  const replace = (_: string, one: unknown) =>
    isInfinite(one) ? `${one === Number.NEGATIVE_INFINITY ? '-' : ''}${mark}` : one
  const marked = JSON.stringify(value, replace, indent)
  return marked.replaceAll(`"${mark}"`, '1e400').replaceAll(`"-${mark}"`, '-1e400')
}
