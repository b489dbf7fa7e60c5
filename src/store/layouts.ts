import type { ClickHouse } from '../clickhouse/client.js'
import type { Layout } from '../model/layout.js'

/** A change of the layout, and how far it is. */
export interface RecordedLayout extends Layout {
  /**
   * `changing`: intake is or will be closed, and nothing was moved yet. `moving`: every lane is drained, and what has to
   * move is being moved. `active`: done.
   */
  state: 'changing' | 'moving' | 'active'
}

/** What was recorded last, and what was in force before it. */
export interface LayoutHistory {
  /** null for a store that no service has started on yet */
  latest: RecordedLayout | null
  /** the latest active one; null where there was none yet */
  active: Layout | null
}

const STATES: RecordedLayout['state'][] = ['changing', 'moving', 'active']

/** @param first the first shard, which alone has the table */
export async function readLayouts(first: ClickHouse, signal?: AbortSignal): Promise<LayoutHistory> {
  const rows = await first.rows<RecordedLayout>(
    `SELECT version, lanes, shards, state FROM layouts
     GROUP BY version, lanes, shards, state ORDER BY min(changed_at), lanes, shards`,
    {},
    {},
    { signal },
  )
  // The states of a version follow each other in one direction only. Of two that services recorded at the same time, as at
  // the first start with different settings, the first one counts for both.
  const order = ({ version, state }: RecordedLayout) => version * STATES.length + STATES.indexOf(state)
  rows.sort((a, b) => order(b) - order(a))
  const active = rows.find(({ state }) => state === 'active')
  return {
    latest: rows[0] ?? null,
    active: active ? { version: active.version, lanes: active.lanes, shards: active.shards } : null,
  }
}

/** Adds to what was recorded. What is recorded twice counts once. */
export async function recordLayout(first: ClickHouse, layout: RecordedLayout, now: number): Promise<void> {
  const { version, lanes, shards, state } = layout
  await first.command(
    `INSERT INTO layouts (version, lanes, shards, state, changed_at)
     SELECT {version:UInt32}, {lanes:UInt16}, {shards:UInt16}, {state:String}, {now:Int64}`,
    { version, lanes, shards, state, now },
  )
}
