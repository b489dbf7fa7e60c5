import type { KnownPart, LostPart } from '../store/part-notes.js'
import type { ActivePart, Blocks, DetachedPart, Part } from '../store/parts.js'
import { PartMap, sumByProject, sumOfRows } from './part-map.js'

/** What a look at a shard has found. */
export interface Seen {
  active: readonly ActivePart[]
  /** what was noted before */
  known: readonly KnownPart[]
  detached: readonly DetachedPart[]
  /** what is known to be lost, or settled */
  noted: readonly LostPart[]
  /** tables of which this replica does not have everything yet */
  lagging: ReadonlySet<string>
  /** whether the server was started since the parts were noted */
  isRestarted: boolean
  /** whether a part has rows of these blocks; null if it cannot tell */
  hasRowsOf(part: Part, blocks: Blocks): Promise<boolean | null>
}

/**
 * What is newly lost or settled. ClickHouse merges parts into ones that have all their blocks, so a part is gone if it is
 * neither there nor within another one. A server that starts without a part may merge its neighbours before anybody looks:
 * then the new part seems to have its blocks, but has no row of them.
 *
 * Not noticed: a part that vanished, not put aside, whose neighbours were merged while the server ran, or were merged with edits
 * or deletes.
 */
export async function findLost(seen: Seen): Promise<LostPart[]> {
  const { known, detached, noted, lagging } = seen
  const active = new PartMap(seen.active)
  const told = new Map(noted.map((lost) => [`${lost.table}/${lost.part}`, lost]))
  const gone = new Set<KnownPart>()
  for (const part of known) {
    if (!lagging.has(part.table) && (await isGone(part, active, seen))) gone.add(part)
  }
  const found: LostPart[] = []
  for (const { table, name, reason, blocks } of detached) {
    if (blocks && lagging.has(table)) continue
    const { partition = '' } = blocks ?? {}
    const held = blocks ? known.filter((part) => overlaps(part, blocks)) : []
    for (const part of held) gone.delete(part)
    if (told.has(`${table}/${name}`)) continue
    const isSettled = blocks !== null && (await isElsewhere(blocks, active, seen))
    found.push({ table, part: name, partition, state: 'detached', reason, ...heldBy(held, active), isSettled })
  }
  for (const part of gone) {
    const { table, partition, name } = part
    if (told.get(`${table}/${name}`)?.isSettled === false) continue
    const held = heldBy([part], active)
    found.push({ table, part: name, partition, state: 'missing', reason: '', ...held, isSettled: false })
  }
  return [...found, ...(await settled(noted, active, seen))]
}

async function isGone(part: KnownPart, active: PartMap<ActivePart>, seen: Seen): Promise<boolean> {
  if (part.rows === 0) return false
  const around = active.around(part)
  if (!around) return sumOfRows(active.within(part)) < part.rows
  if (around.name === part.name || !seen.isRestarted || !around.isRecent) return false
  // Its rows may all have been deleted.
  if (versionOf(around) > versionOf(part)) return false
  return (await seen.hasRowsOf(around, part)) === false
}

/** The number of the newest edit or delete that a part has within it; 0 if there is none. */
function versionOf({ name }: Part): number {
  return Number(/_\d+_\d+_\d+_(\d+)$/.exec(name)?.[1] ?? 0)
}

/** Whether a part that was put aside is in another one, as where a replica has fetched it again. */
async function isElsewhere(blocks: Blocks, active: PartMap<ActivePart>, seen: Seen): Promise<boolean> {
  const around = active.around(blocks)
  if (!around) return false
  // An operator who puts a part aside leaves an empty one in its place.
  if (around.rows === 0) return false
  const isSame = around.first === blocks.first && around.last === blocks.last
  return (await seen.hasRowsOf(around, blocks)) ?? (isSame || !around.isRecent)
}

/** The blocks in the name of a part, or of the folder in which it was put aside. */
const BLOCKS = /_(\d+)_(\d+)_\d+(?:_\d+)?(?:_try\d+)?$/

/** What is noted as lost and is there again, under its own name or in a part that was merged from it since. */
async function settled(
  noted: readonly LostPart[],
  active: PartMap<ActivePart>,
  { hasRowsOf }: Pick<Seen, 'hasRowsOf'>,
): Promise<LostPart[]> {
  const back: LostPart[] = []
  for (const lost of noted) {
    const [, first, last] = BLOCKS.exec(lost.part) ?? []
    if (lost.isSettled || first === undefined) continue
    const blocks = { table: lost.table, partition: lost.partition, first: Number(first), last: Number(last) }
    const around = active.around(blocks)
    if (!around || around.rows === 0) continue
    const isSame = lost.part === around.name || lost.part.endsWith(`_${around.name}`)
    if (isSame || (await hasRowsOf(around, blocks))) back.push({ ...lost, isSettled: true })
  }
  return back
}

/** The rows of parts that are gone, less those that are still there in smaller parts. */
function heldBy(parts: readonly KnownPart[], active: PartMap<ActivePart>): Pick<LostPart, 'rows' | 'projects'> {
  if (parts.length === 0) return { rows: null, projects: {} }
  const left = parts.reduce((sum, part) => sum + sumOfRows(active.within(part)), 0)
  return { rows: Math.max(0, sumOfRows(parts) - left), projects: sumByProject(parts) }
}

function overlaps(part: Part, { table, partition, first, last }: Blocks): boolean {
  return part.table === table && part.partition === partition && part.first <= last && first <= part.last
}
