import type { Fact } from './data.js'
import { type Field, fieldValue } from './filter.js'
import { compareTexts, jsonText, type Value } from './json.js'

/** The members of a line: those with the same values, or all others. */
export interface Group<Member> {
  breakdown: Value[]
  isRest: boolean
  members: Member[]
}

export function breakdownOf(fields: Field[] | undefined, fact: Fact): Value[] {
  return (fields ?? []).map((field) => fieldValue(field, fact))
}

/**
 * The largest groups, and all others as one. Groups of equal size are sorted by the JSON text of their values; those
 * without a size come last. Without a breakdown all members are one group, even if there is none.
 */
export function largestGroups<Member>(
  members: Member[],
  {
    isBroken,
    valuesOf,
    sizeOf,
    limit,
  }: {
    isBroken: boolean
    valuesOf: (member: Member) => Value[]
    sizeOf: (members: Member[]) => number | null
    limit: number
  },
): Group<Member>[] {
  if (!isBroken) return [{ breakdown: [], isRest: false, members }]
  const groups = new Map<string, Group<Member>>()
  for (const member of members) {
    const breakdown = valuesOf(member)
    const group = groups.get(jsonText(breakdown)) ?? { breakdown, isRest: false, members: [] }
    groups.set(jsonText(breakdown), group)
    group.members.push(member)
  }
  const sorted = [...groups.values()]
    .map((group) => ({ group, size: sizeOf(group.members), text: jsonText(group.breakdown) }))
    .sort((a, b) => descending(a.size, b.size) || compareTexts(a.text, b.text))
    .map(({ group }) => group)
  const rest = sorted.slice(limit).flatMap((group) => group.members)
  const first = sorted.slice(0, limit)
  return rest.length === 0 ? first : [...first, { breakdown: ['$other'], isRest: true, members: rest }]
}

function descending(a: number | null, b: number | null): number {
  if (a === b) return 0
  if (a === null) return 1
  if (b === null) return -1
  return b - a
}
