/**
 * Like JSON.stringify, but infinite numbers become `1e400` and `-1e400`, which JSON.parse reads as infinite, instead of
 * null.
 */
export function formatExactJson(value: unknown): string {
  const isInfinite = (one: unknown) => one === Number.POSITIVE_INFINITY || one === Number.NEGATIVE_INFINITY
  let hasInfinite = false
  const text = JSON.stringify(value, (_, one) => {
    hasInfinite ||= isInfinite(one)
    return one
  })
  if (!hasInfinite) return text
  let mark: string
  // Random, because a text of an event could otherwise be made to contain it.
  do mark = `infinite ${Math.random()}`
  while (text.includes(mark))
  const marked = JSON.stringify(value, (_, one) => (isInfinite(one) ? `${one < 0 ? '-' : ''}${mark}` : one))
  return marked.replaceAll(`"${mark}"`, '1e400').replaceAll(`"-${mark}"`, '-1e400')
}
