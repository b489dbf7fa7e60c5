const UNITS: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/** Parses a duration such as `7d` into ms; null if it is invalid. */
export function parseDuration(text: string): number | null {
  const [, count, unit = ''] = /^(\d{1,12})(ms|s|m|h|d|w)$/.exec(text) ?? []
  return count === undefined ? null : Number(count) * (UNITS[unit] ?? 0)
}
