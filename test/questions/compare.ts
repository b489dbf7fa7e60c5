/** Doubles that were computed in different orders differ in their last digits. */
const TOLERANCE = 1e-9

/**
 * Where and how an answer differs from the expected one; null if it does not. Fields that the expected answer does not
 * have are ignored.
 */
export function difference(actual: unknown, expected: unknown, path = ''): string | null {
  if (typeof expected === 'number') return areClose(actual, expected) ? null : unlike(actual, expected, path)
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual)) return unlike(actual, expected, path)
    const found = first(expected, (one, index) => difference(actual[index], one, `${path}/${index}`))
    return found ?? (actual.length === expected.length ? null : unlike(actual, expected, path))
  }
  if (expected instanceof Map) return difference(actual, Object.fromEntries(expected), path)
  if (typeof expected === 'object' && expected !== null) {
    if (typeof actual !== 'object' || actual === null) return unlike(actual, expected, path)
    return first(Object.entries(expected), ([name, one]) =>
      difference((actual as Record<string, unknown>)[name], one, `${path}/${name}`),
    )
  }
  return actual === expected ? null : unlike(actual, expected, path)
}

function areClose(actual: unknown, expected: number): boolean {
  if (typeof actual !== 'number') return false
  if (actual === expected) return true
  // A tolerance of infinity would let everything pass.
  if (!Number.isFinite(expected)) return false
  return Math.abs(actual - expected) <= TOLERANCE * Math.max(Math.abs(actual), Math.abs(expected))
}

function first<One>(all: One[], look: (one: One, index: number) => string | null): string | null {
  for (const [index, one] of all.entries()) {
    const found = look(one, index)
    if (found !== null) return found
  }
  return null
}

function unlike(actual: unknown, expected: unknown, path: string): string {
  return `${path || '/'} is ${brief(actual)} and should be ${brief(expected)}`
}

function brief(value: unknown): string {
  return (JSON.stringify(value) ?? 'absent').slice(0, 600)
}
