import { randomUUID } from 'node:crypto'

/** Placeholder for infinite numbers, which JSON.stringify would turn into null. Random, so that no value equals it. */
const INFINITE = randomUUID()
const MARK = new RegExp(`"(-?)${INFINITE}"`, 'g')

/** Like JSON.stringify, but infinite numbers become `1e400` and `-1e400`, which JSON.parse reads as infinite. */
export function formatAnswer(answer: object): string {
  let isInfinite = false
  const text = JSON.stringify(answer, (_, value) => {
    if (value !== Number.POSITIVE_INFINITY && value !== Number.NEGATIVE_INFINITY) return value
    isInfinite = true
    return `${value < 0 ? '-' : ''}${INFINITE}`
  })
  return isInfinite ? text.replace(MARK, (_, sign: string) => `${sign}1e400`) : text
}
