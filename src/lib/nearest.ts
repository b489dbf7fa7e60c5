/** Names with more characters are only compared as a whole. */
const MAX_LENGTH = 100
/** Maximum number of typos in a name. */
const MAX_DISTANCE = 3
/** Allows one typo for this many characters; in a shorter name, one different character makes another name. */
const CHARACTERS_PER_SLIP = 3
/** From this length on, the beginning of a name is enough to find it. */
const MIN_BEGINNING = 3

/**
 * Prepares a search for the name that a mistyped name probably means: one that differs only in case or
 * punctuation, else one with few typos, else one that begins with it. If several match, the first.
 * @returns a function that finds the name; it returns undefined if no name is near. A name is not near itself.
 */
export function createNearestFinder(names: Iterable<string>): (given: string) => string | undefined {
  const candidates = [...names].map((name) => ({ name, plain: normalizeName(name) }))
  return (given) => {
    const wanted = normalizeName(given)
    if (wanted === '') return undefined
    const others = candidates.filter(({ name, plain }) => name !== given && plain !== '')
    const same = others.find(({ plain }) => plain === wanted)
    if (same || wanted.length > MAX_LENGTH) return same?.name
    let limit = Math.min(MAX_DISTANCE, Math.floor(wanted.length / CHARACTERS_PER_SLIP))
    let near: string | undefined
    for (const { name, plain } of others) {
      const distance = editDistance(wanted, plain, limit)
      if (distance === null || (near !== undefined && distance === limit)) continue
      near = name
      limit = distance
    }
    const isBeginning = wanted.length >= MIN_BEGINNING
    return near ?? (isBeginning ? others.find(({ plain }) => plain.startsWith(wanted))?.name : undefined)
  }
}

/** Letters and digits only, in lower case. */
function normalizeName(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '')
}

/**
 * How many characters must be inserted, deleted, replaced or swapped with their neighbour to turn one text into the
 * other (optimal string alignment).
 * @returns null if the distance is greater than `limit`
 */
export function editDistance(a: string, b: string, limit: number): number | null {
  if (Math.abs(a.length - b.length) > limit) return null
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      let least = Math.min(last[j] ?? 0, row[j - 1] ?? 0) + 1
      least = Math.min(least, (last[j - 1] ?? 0) + (isSame ? 0 : 1))
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(isSwap ? Math.min(least, (before[j - 2] ?? 0) + 1) : least)
    }
    // A later row is at least as far away; after a swap, one row later.
    if (Math.min(...row) > limit && Math.min(...last) > limit) return null
    before = last
    last = row
  }
  const distance = last[b.length] ?? 0
  return distance <= limit ? distance : null
}
