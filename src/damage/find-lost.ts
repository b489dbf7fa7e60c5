import type { KnownPart, LostPart } from '../store/part-notes.js'
import {
  type ActivePart,
  type Blocks,
  type DetachedPart,
  isPatch,
  type Part,
  patchedPartition,
} from '../store/parts.js'
import { PartMap, sumByProject, sumRows, toPartKey } from './part-map.js'

/** The parts of a shard as a check found them. */
export interface ShardParts {
  active: readonly ActivePart[]
  /** parts that were merged into others and that ClickHouse has not removed yet */
  outdated: readonly ActivePart[]
  /** parts recorded before */
  known: readonly KnownPart[]
  detached: readonly DetachedPart[]
  /** losses recorded before, including settled ones */
  noted: readonly LostPart[]
  /** tables that this replica has not fully fetched yet */
  lagging: ReadonlySet<string>
  /** whether the server was started after the parts were recorded */
  isRestarted: boolean
  /** Whether a part has rows of these blocks; null if unknown. */
  hasBlockRows(part: Part, blocks: Blocks): Promise<boolean | null>
}

/**
 * Finds new losses, and losses that are settled now. ClickHouse merges parts into one that covers all their blocks, so
 * a part is gone if it neither exists nor is covered by another. A server that starts without a part may merge its
 * neighbours before the next check, immediately if they are old: then the new part seems to cover the lost blocks.
 * While ClickHouse lists the sources of the new part, the lost one is missing among them; later, the new part has no
 * row of its blocks.
 *
 * A patch may disappear once all parts of its partition include its edits and deletes.
 *
 * Not noticed: a part that vanished without being detached, if its neighbours were merged while the server ran.
 * Likewise if they were merged at its start, but the sources are no longer listed, and either edits or deletes were
 * merged as well, which may have deleted all rows of the part, or the table is not `events`, the only one whose rows
 * store their block.
 */
export async function findLost(seen: ShardParts): Promise<LostPart[]> {
  const { known, detached, noted, lagging } = seen
  const active = new PartMap(seen.active)
  const look = { active, merges: new Merges(seen), seen }
  const told = new Map(noted.map((lost) => [`${lost.table}/${lost.part}`, lost]))
  const gone = new Set<KnownPart>()
  for (const part of known) {
    if (!lagging.has(part.table) && (await isGone(part, look))) gone.add(part)
  }
  const found: LostPart[] = []
  for (const { table, name, reason, blocks } of detached) {
    if (blocks && lagging.has(table)) continue
    const { partition = '' } = blocks ?? {}
    const parts = blocks ? known.filter((part) => overlaps(part, blocks)) : []
    for (const part of parts) gone.delete(part)
    if (told.has(`${table}/${name}`)) continue
    const held = countHeldRows(parts, active)
    // ClickHouse may still have the sources of a broken merged part, and use them again.
    const isWhole = held.rows === 0 && sumRows(parts) > 0
    const isSettled = isWhole || (blocks !== null && (await isElsewhere(blocks, look)))
    found.push({ table, part: name, partition, state: 'detached', reason, ...held, isSettled })
  }
  for (const part of gone) {
    const { table, partition, name } = part
    if (told.get(`${table}/${name}`)?.isSettled === false) continue
    const held = countHeldRows([part], active)
    found.push({ table, part: name, partition, state: 'missing', reason: '', ...held, isSettled: false })
  }
  return [...found, ...(await findSettled(look))]
}

/** The parts of a shard in the form in which they are looked up. */
interface Look {
  active: PartMap<ActivePart>
  merges: Merges
  seen: ShardParts
}

async function isGone(part: KnownPart, { active, merges, seen }: Look): Promise<boolean> {
  if (part.rows === 0) return false
  const around = active.around(part)
  if (!around) return isPatch(part) ? isWanted(part, active) : sumRows(active.within(part)) < part.rows
  if (around.name === part.name || !seen.isRestarted) return false
  const wasMerged = merges.had(part)
  if (wasMerged !== null) return !wasMerged
  // All its rows may have been deleted.
  if (parseVersion(around) > parseVersion(part)) return false
  return (await seen.hasBlockRows(around, part)) === false
}

/** Whether any part still needs the patch. */
function isWanted(patch: Part, active: PartMap<ActivePart>): boolean {
  const patched = active.in({ table: patch.table, partition: patchedPartition(patch) })
  return patched.some((part) => part.rows > 0 && parseVersion(part) < parseVersion(patch))
}

/** The number of the newest edit or delete that a part includes; its first block if there is none. */
function parseVersion({ name, first }: Part): number {
  return Number(/_\d+_\d+_\d+_(\d+)$/.exec(name)?.[1] ?? first)
}

/** The merges since the server's start whose sources it still lists. */
class Merges {
  readonly #listed: PartMap<ActivePart>
  readonly #outdated: ReadonlySet<string>
  /** cache: whether all sources of a part are listed */
  readonly #areListed = new Map<ActivePart, boolean>()

  constructor({ active, outdated }: Pick<ShardParts, 'active' | 'outdated'>) {
    this.#listed = new PartMap([...active, ...outdated])
    this.#outdated = new Set(outdated.map(toPartKey))
  }

  /**
   * Whether a part that is covered by another one was among the sources of its merge.
   * @returns null if those sources are not listed
   */
  had(part: Part): boolean | null {
    if (this.#outdated.has(toPartKey(part))) return true
    const innermost = this.#innermost(part)
    return innermost && isSame(innermost, part) ? true : this.hadBlocks(part)
  }

  /** Like `had`, for a range of blocks whose part has no known name. */
  hadBlocks(blocks: Blocks): boolean | null {
    const merged = this.#innermost(blocks)
    if (!merged) return null
    // When an operator detaches a part, an empty one takes its place.
    if (isSame(merged, blocks)) return merged.rows > 0
    // The part would be one of the sources.
    return this.#listsAllSources(merged) ? false : null
  }

  /**
   * Whether all sources of a merge are listed. After a merge before the server's start, some
   * may have been removed; later, perhaps only those are left that a query is still reading.
   */
  #listsAllSources(merged: ActivePart): boolean {
    const known = this.#areListed.get(merged)
    if (known !== undefined) return known
    const sources = findOutermost(this.#listed.within(merged).filter((part) => countBlocks(part) < countBlocks(merged)))
    const areListed = merged.isRecent && sources.length > 0 && sumRows(sources) >= merged.rows
    this.#areListed.set(merged, areListed)
    return areListed
  }

  /** The smallest listed part that covers these blocks; of several with the same blocks, the least merged. */
  #innermost(blocks: Blocks): ActivePart | undefined {
    const around = this.#listed.allAround(blocks)
    return around.sort((a, b) => countBlocks(a) - countBlocks(b) || parseLevel(a) - parseLevel(b))[0]
  }
}

/** The parts that no other part of the list covers. */
function findOutermost(parts: readonly ActivePart[]): ActivePart[] {
  const inOrder = [...parts].sort((a, b) => a.first - b.first || b.last - a.last || parseLevel(b) - parseLevel(a))
  const found: ActivePart[] = []
  let last = Number.NEGATIVE_INFINITY
  for (const part of inOrder) {
    if (part.last <= last) continue
    last = part.last
    found.push(part)
  }
  return found
}

function isSame(a: Blocks, b: Blocks): boolean {
  return a.first === b.first && a.last === b.last
}

function countBlocks({ first, last }: Blocks): number {
  return last - first
}

/** How often a part was merged. */
function parseLevel({ name }: Part): number {
  return Number(/_\d+_\d+_(\d+)(?:_\d+)?$/.exec(name)?.[1] ?? 0)
}

/**
 * Whether the rows of a detached part are also in an active one, for example because a replica has fetched it again.
 */
async function isElsewhere(blocks: Blocks, { active, merges, seen }: Look): Promise<boolean> {
  const around = active.around(blocks)
  if (!around) return false
  // When an operator detaches a part, an empty one takes its place.
  if (around.rows === 0) return false
  const isThere = (await seen.hasBlockRows(around, blocks)) ?? merges.hadBlocks(blocks)
  return isThere ?? (isSame(around, blocks) || !around.isRecent)
}

/** Matches what follows the partition in the name of a part, or of its folder after it was detached. */
const BLOCKS = /^(\d+)_(\d+)_\d+(?:_\d+)?(?:_try\d+)?$/

/** The blocks of a lost part. The name of a detached one may begin with the reason, such as `broken_`. */
function parseBlocks({ table, partition, part }: LostPart): Blocks | null {
  const [, ...after] = `_${part}`.split(`_${partition}_`)
  const [, first, last] = BLOCKS.exec(after.join(`_${partition}_`)) ?? []
  return first === undefined ? null : { table, partition, first: Number(first), last: Number(last) }
}

/** Recorded losses whose rows exist again, in a part of the same name or in one that was merged from it. */
async function findSettled({ active, merges, seen }: Look): Promise<LostPart[]> {
  const back: LostPart[] = []
  for (const lost of seen.noted) {
    const blocks = lost.isSettled ? null : parseBlocks(lost)
    const around = blocks && active.around(blocks)
    if (!around || around.rows === 0) continue
    const isBack = lost.part === around.name || lost.part.endsWith(`_${around.name}`)
    if (isBack || (await seen.hasBlockRows(around, blocks)) || merges.hadBlocks(blocks))
      back.push({ ...lost, isSettled: true })
  }
  return back
}

/** Counts the rows of lost parts, minus those that still exist in smaller parts. */
function countHeldRows(parts: readonly KnownPart[], active: PartMap<ActivePart>): Pick<LostPart, 'rows' | 'projects'> {
  if (parts.length === 0) return { rows: null, projects: {} }
  const left = parts.reduce((sum, part) => sum + sumRows(active.within(part)), 0)
  return { rows: Math.max(0, sumRows(parts) - left), projects: sumByProject(parts) }
}

function overlaps(part: Part, { table, partition, first, last }: Blocks): boolean {
  return part.table === table && part.partition === partition && part.first <= last && first <= part.last
}
