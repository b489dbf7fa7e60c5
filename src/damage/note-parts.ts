import type { ClickHouse } from '../clickhouse/client.js'
import { type KnownPart, noteKnownParts } from '../store/part-notes.js'
import { countByProject, type Part, type PartList } from '../store/parts.js'
import { PartMap, sumByProject, sumRows, toPartKey } from './part-map.js'

/**
 * Records the parts of each partition that has changed.
 * @param lagging tables that this replica has not fully fetched, which are left out
 * @returns all recorded parts
 */
export async function noteParts(
  clickhouse: ClickHouse,
  { active, at }: Pick<PartList, 'active' | 'at'>,
  known: readonly KnownPart[],
  lagging: ReadonlySet<string>,
): Promise<KnownPart[]> {
  const before = new PartMap(known)
  const knownByKey = new Map(known.map((part) => [toPartKey(part), part]))
  const listed = active.filter(({ table }) => !lagging.has(table))
  const fresh = listed.filter((part) => !knownByKey.has(toPartKey(part)))
  for (const part of await countProjects(clickhouse, fresh, before)) knownByKey.set(toPartKey(part), part)
  const kept = listed.flatMap((part) => knownByKey.get(toPartKey(part)) ?? [])
  const all = [...kept, ...known.filter(({ table }) => lagging.has(table))]
  const after = new PartMap(all)
  const names = new Set([...before.partitions, ...after.partitions])
  const notes = [...names].flatMap((name) => {
    const [old, parts] = [before.at(name), after.at(name)]
    const { table, partition } = parts[0] ?? old[0] ?? { table: '', partition: '' }
    return isSame(old, parts) ? [] : [{ table, partition, parts }]
  })
  await noteKnownParts(clickhouse, notes, at)
  return all
}

/**
 * Adds up the rows by project of a merged part from its sources if all of them were known; otherwise counts them.
 * Comparing the numbers of rows is not enough: the rows of an unknown source may make up for those the merge removed.
 */
async function countProjects(
  clickhouse: ClickHouse,
  fresh: readonly Part[],
  known: PartMap<KnownPart>,
): Promise<KnownPart[]> {
  const added: KnownPart[] = []
  const rest: Part[] = []
  for (const part of fresh) {
    const sources = known.within(part)
    if (part.rows > 0 && sumRows(sources) === part.rows && haveAllBlocks(sources, part))
      added.push(toKnownPart(part, sumByProject(sources)))
    else rest.push(part)
  }
  // Record a part even if it cannot be read.
  const counts = await countByProject(clickhouse, rest).catch(() => null)
  return [...added, ...rest.map((part) => toKnownPart(part, counts?.get(part) ?? {}))]
}

/** @param parts ordered by their first blocks */
function haveAllBlocks(parts: readonly Part[], { first, last }: Part): boolean {
  let next = first
  for (const part of parts) {
    if (part.first > next) return false
    next = Math.max(next, part.last + 1)
  }
  return next > last
}

function toKnownPart({ table, partition, name, first, last, rows }: Part, projects: Record<string, number>): KnownPart {
  return { table, partition, name, first, last, rows, projects }
}

function isSame(a: readonly KnownPart[], b: readonly KnownPart[]): boolean {
  const names = new Set(b.map(toPartKey))
  return a.length === b.length && a.every((part) => names.has(toPartKey(part)))
}
