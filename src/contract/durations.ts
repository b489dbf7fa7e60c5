export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }

/** Parses a duration such as `7d` into ms; null if it is invalid. */
export function parseDuration(text: string): number | null {
  const [, count, unit = ''] = /^(\d{1,12})(ms|s|m|h|d|w)$/.exec(text) ?? []
  return count === undefined ? null : Number(count) * (UNITS[unit] ?? 0)
}
