import { isStoreError, StoreUnreachableError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import type { LayoutGuard } from '../journal/layout.js'
import { type Layout, parseLayoutNumber } from '../model/layout.js'
import { type RecordedLayout, readLayouts, recordLayout } from '../store/layouts.js'

/** The settings do not match the layout of the store. Retrying does not help; the message says what does. */
export class WrongLayoutError extends Error {
  override readonly name = 'WrongLayoutError'
}

/** How long a start waits for a store that does not respond, ms. */
const FIND_LIMIT_MS = 2_000

/**
 * Finds the layout for which a process opens its lanes: the recorded layout of the store; if the store is down or new,
 * the layout of the first lane's journal; without a journal, the layout of the settings.
 * @param lanes number of lanes in the settings
 * @param guardOfFirst reads the guard of lane 0; null if there is no journal
 * @throws WrongLayoutError if the settings differ, or if a change is in progress
 */
export async function findLayout(
  shards: Shards,
  lanes: number,
  guardOfFirst: () => Promise<LayoutGuard | null>,
): Promise<Layout> {
  const given = { lanes, shards: shards.all.length }
  const found = (await recorded(shards)) ?? asRecorded(await guardOfFirst())
  if (!found) return { version: 1, ...given }
  assertFits(found, given)
  return { version: found.version, ...given }
}

/** The layout that the store has recorded; null if there is none yet, or the store does not respond in time. */
async function recorded(shards: Shards): Promise<RecordedLayout | null> {
  try {
    return (await readLayouts(shards.first, AbortSignal.timeout(FIND_LIMIT_MS))).latest
  } catch (error) {
    if (error instanceof StoreUnreachableError || isStoreError(error, 'UNKNOWN_TABLE', 'UNKNOWN_DATABASE')) return null
    throw error
  }
}

/**
 * The layout that a journal belongs to. One that a change of the layout has just created has version 0 and does not
 * count.
 */
function asRecorded(guard: LayoutGuard | null): RecordedLayout | null {
  if (!guard || guard.version === 0) return null
  if (guard.closedFor === null) return { ...parseLayoutNumber(guard.version), state: 'active' }
  return { ...parseLayoutNumber(guard.closedFor), state: 'changing' }
}

/**
 * Compares the layout for which a process has opened its lanes with the layout of the store, once the store responds. A
 * store without a layout records this layout before anything is written to its shards.
 * @throws WrongLayoutError if they differ, or if a change is in progress
 * @throws StoreError, StoreUnreachableError if the first shard cannot be asked
 */
export async function checkLayout(shards: Shards, opened: Layout): Promise<void> {
  let { latest } = await readLayouts(shards.first)
  if (!latest) {
    await recordLayout(shards.first, { ...opened, state: 'active' }, Date.now())
    // If another process has recorded a layout at the same time, both use that one.
    latest = (await readLayouts(shards.first)).latest
  }
  if (!latest) throw new Error('the layout that was recorded is missing')
  assertFits(latest, opened)
  if (latest.version === opened.version) return
  throw new WrongLayoutError(
    `The journals were opened for layout ${opened.version}, but the store has layout ${latest.version}. Start again; if that does not help, run \`tallyhouse lanes set ${latest.lanes}\`.`,
  )
}

function assertFits(layout: RecordedLayout, given: Omit<Layout, 'version'>): void {
  if (layout.state !== 'active') {
    throw new WrongLayoutError(
      `The store is being changed to ${describeLayout(layout)}. Wait for \`tallyhouse lanes set ${layout.lanes}\` to finish. If it was interrupted, run it again with the new settings: it resumes.`,
    )
  }
  if (layout.lanes === given.lanes && layout.shards === given.shards) return
  throw new WrongLayoutError(
    `The store has ${describeLayout(layout)}, but the settings have ${describeLayout(given)} (LANES, REDIS_URL, CLICKHOUSE_URL). Start with the settings of the store, or change it first: run \`tallyhouse lanes set ${given.lanes}\` with the new settings.`,
  )
}

/** Such as "3 lanes on 2 shards". */
export function describeLayout({ lanes, shards }: Omit<Layout, 'version'>): string {
  return `${lanes} ${lanes === 1 ? 'lane' : 'lanes'} on ${shards} ${shards === 1 ? 'shard' : 'shards'}`
}
