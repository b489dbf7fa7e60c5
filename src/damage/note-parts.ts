import type { ClickHouse } from '../clickhouse/client.js'
import { type KnownPart, noteKnownParts } from '../store/part-notes.js'
import { countByProject, type Part, type PartList } from '../store/parts.js'
import { PartMap, sumByProject, sumRows, toPartKey } from './part-map.js'

/**
 * Notes the parts that there are, of each partition that has changed.
 * @param lagging tables whose list is not complete on this replica, of which nothing is noted
 * @returns all that are noted now
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

/** The rows by project of a merged part are the sums of the parts that it was made of, where all those were known. */
async function countProjects(
  clickhouse: ClickHouse,
  fresh: readonly Part[],
  known: PartMap<KnownPart>,
): Promise<KnownPart[]> {
  const added: KnownPart[] = []
  const rest: Part[] = []
  for (const part of fresh) {
    const sources = known.within(part)
    if (part.rows > 0 && sumRows(sources) === part.rows) added.push(toKnownPart(part, sumByProject(sources)))
    else rest.push(part)
  }
  // A part that cannot be read is noted nevertheless.
  const counts = await countByProject(clickhouse, rest).catch(() => null)
  return [...added, ...rest.map((part) => toKnownPart(part, counts?.get(part) ?? {}))]
}

function toKnownPart({ table, partition, name, first, last, rows }: Part, projects: Record<string, number>): KnownPart {
  return { table, partition, name, first, last, rows, projects }
}

function isSame(a: readonly KnownPart[], b: readonly KnownPart[]): boolean {
  const names = new Set(b.map(toPartKey))
  return a.length === b.length && a.every((part) => names.has(toPartKey(part)))
}
