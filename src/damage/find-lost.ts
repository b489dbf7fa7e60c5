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

/** What a look at a shard has found. */
export interface ShardParts {
  active: readonly ActivePart[]
  /** what was merged into others, as long as ClickHouse keeps it */
  outdated: readonly ActivePart[]
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
  hasBlockRows(part: Part, blocks: Blocks): Promise<boolean | null>
}

/**
 * What is newly lost or settled. ClickHouse merges parts into ones that have all their blocks, so a part is gone if it is
 * neither there nor within another one. A server that starts without a part may merge its neighbours before anybody looks,
 * and does so at once if they are old: then the new part seems to have its blocks. That it was not among the sources of the
 * new part tells the loss, as long as ClickHouse lists those; later, that the new part has no row of its blocks.
 *
 * A patch is gone by rights once all parts of its partition have its edits and deletes within them.
 *
 * Not noticed: a part that vanished, not put aside, whose neighbours were merged while the server ran; or at its start, but
 * so long before the look that the sources are no longer listed, if edits or deletes were merged as well, which may have
 * deleted all its rows, or the table is not `events`, whose rows alone remember their blocks.
 */
export async function findLost(seen: ShardParts): Promise<LostPart[]> {
  const { known, detached, noted, lagging } = seen
  const active = new PartMap(seen.active)
  const merges = new Merges(seen)
  const told = new Map(noted.map((lost) => [`${lost.table}/${lost.part}`, lost]))
  const gone = new Set<KnownPart>()
  for (const part of known) {
    if (!lagging.has(part.table) && (await isGone(part, active, merges, seen))) gone.add(part)
  }
  const found: LostPart[] = []
  for (const { table, name, reason, blocks } of detached) {
    if (blocks && lagging.has(table)) continue
    const { partition = '' } = blocks ?? {}
    const parts = blocks ? known.filter((part) => overlaps(part, blocks)) : []
    for (const part of parts) gone.delete(part)
    if (told.has(`${table}/${name}`)) continue
    const held = countHeldRows(parts, active)
    // Of a merged part that is broken, ClickHouse may still have the sources, and use them again.
    const isWhole = held.rows === 0 && sumRows(parts) > 0
    const isSettled = isWhole || (blocks !== null && (await isElsewhere(blocks, active, merges, seen)))
    found.push({ table, part: name, partition, state: 'detached', reason, ...held, isSettled })
  }
  for (const part of gone) {
    const { table, partition, name } = part
    if (told.get(`${table}/${name}`)?.isSettled === false) continue
    const held = countHeldRows([part], active)
    found.push({ table, part: name, partition, state: 'missing', reason: '', ...held, isSettled: false })
  }
  return [...found, ...(await findSettled(noted, active, merges, seen))]
}

async function isGone(
  part: KnownPart,
  active: PartMap<ActivePart>,
  merges: Merges,
  seen: ShardParts,
): Promise<boolean> {
  if (part.rows === 0) return false
  const around = active.around(part)
  if (!around) return isPatch(part) ? isWanted(part, active) : sumRows(active.within(part)) < part.rows
  if (around.name === part.name || !seen.isRestarted) return false
  const wasMerged = merges.had(part)
  if (wasMerged !== null) return !wasMerged
  // Its rows may all have been deleted.
  if (parseVersion(around) > parseVersion(part)) return false
  return (await seen.hasBlockRows(around, part)) === false
}

/** Whether a part is there to which a patch is still to be applied. */
function isWanted(patch: Part, active: PartMap<ActivePart>): boolean {
  const patched = active.in({ table: patch.table, partition: patchedPartition(patch) })
  return patched.some((part) => part.rows > 0 && parseVersion(part) < parseVersion(patch))
}

/** The number of the newest edit or delete that a part has within it; its first block if there is none. */
function parseVersion({ name, first }: Part): number {
  return Number(/_\d+_\d+_\d+_(\d+)$/.exec(name)?.[1] ?? first)
}

/** What is known of the merges since the server's start, from the sources that it still lists. */
class Merges {
  readonly #listed: PartMap<ActivePart>
  readonly #outdated: ReadonlySet<string>
  /** whether the sources of a part are listed, of those that were asked about */
  readonly #areListed = new Map<ActivePart, boolean>()

  constructor({ active, outdated }: Pick<ShardParts, 'active' | 'outdated'>) {
    this.#listed = new PartMap([...active, ...outdated])
    this.#outdated = new Set(outdated.map(toPartKey))
  }

  /**
   * Whether a part that is within another one was among those that were merged into it.
   * @returns null if the sources of that merge are not listed
   */
  had(part: Part): boolean | null {
    if (this.#outdated.has(toPartKey(part))) return true
    const innermost = this.#innermost(part)
    return innermost && isSame(innermost, part) ? true : this.hadRowsOf(part)
  }

  /** As `had`, of blocks that are known without the name of their part. */
  hadRowsOf(blocks: Blocks): boolean | null {
    const merged = this.#innermost(blocks)
    if (!merged) return null
    // An operator who puts a part aside leaves an empty one in its place.
    if (isSame(merged, blocks)) return merged.rows > 0
    // It would be one of the sources.
    return this.#listsAllSources(merged) ? false : null
  }

  /**
   * Whether all sources of a merge are listed: not those of one before the start, some of which may be removed already, nor
   * if only those are left that a query reads.
   */
  #listsAllSources(merged: ActivePart): boolean {
    const known = this.#areListed.get(merged)
    if (known !== undefined) return known
    const sources = findOutermost(this.#listed.within(merged).filter((part) => countBlocks(part) < countBlocks(merged)))
    const areListed = merged.isRecent && sources.length > 0 && sumRows(sources) >= merged.rows
    this.#areListed.set(merged, areListed)
    return areListed
  }

  /** The first part that was made with these blocks, as far as is known. */
  #innermost(blocks: Blocks): ActivePart | undefined {
    const around = this.#listed.allAround(blocks)
    return around.sort((a, b) => countBlocks(a) - countBlocks(b) || parseLevel(a) - parseLevel(b))[0]
  }
}

/** Those of the parts that are not within another one of them. */
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

/** Whether a part that was put aside is in another one, as where a replica has fetched it again. */
async function isElsewhere(
  blocks: Blocks,
  active: PartMap<ActivePart>,
  merges: Merges,
  seen: ShardParts,
): Promise<boolean> {
  const around = active.around(blocks)
  if (!around) return false
  // An operator who puts a part aside leaves an empty one in its place.
  if (around.rows === 0) return false
  const isThere = (await seen.hasBlockRows(around, blocks)) ?? merges.hadRowsOf(blocks)
  return isThere ?? (isSame(around, blocks) || !around.isRecent)
}

/** The blocks in the name of a part, or of the folder in which it was put aside. */
const BLOCKS = /_(\d+)_(\d+)_\d+(?:_\d+)?(?:_try\d+)?$/

/** What is noted as lost and is there again, under its own name or in a part that was merged from it since. */
async function findSettled(
  noted: readonly LostPart[],
  active: PartMap<ActivePart>,
  merges: Merges,
  { hasBlockRows }: Pick<ShardParts, 'hasBlockRows'>,
): Promise<LostPart[]> {
  const back: LostPart[] = []
  for (const lost of noted) {
    const [, first, last] = BLOCKS.exec(lost.part) ?? []
    if (lost.isSettled || first === undefined) continue
    const blocks = { table: lost.table, partition: lost.partition, first: Number(first), last: Number(last) }
    const around = active.around(blocks)
    if (!around || around.rows === 0) continue
    const isBack = lost.part === around.name || lost.part.endsWith(`_${around.name}`)
    if (isBack || (await hasBlockRows(around, blocks)) || merges.hadRowsOf(blocks))
      back.push({ ...lost, isSettled: true })
  }
  return back
}

/** The rows of parts that are gone, less those that are still there in smaller parts. */
function countHeldRows(parts: readonly KnownPart[], active: PartMap<ActivePart>): Pick<LostPart, 'rows' | 'projects'> {
  if (parts.length === 0) return { rows: null, projects: {} }
  const left = parts.reduce((sum, part) => sum + sumRows(active.within(part)), 0)
  return { rows: Math.max(0, sumRows(parts) - left), projects: sumByProject(parts) }
}

function overlaps(part: Part, { table, partition, first, last }: Blocks): boolean {
  return part.table === table && part.partition === partition && part.first <= last && first <= part.last
}
