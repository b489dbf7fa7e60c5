import type { ClickHouse } from '../clickhouse/client.js'
import type { Layout } from '../model/layout.js'

/** A layout and the progress of the change to it. */
export interface RecordedLayout extends Layout {
  /**
   * `changing`: intake is being closed and drained, nothing was moved yet. `moving`: every lane is drained, data is
   * being moved. `active`: the change is complete.
   */
  state: 'changing' | 'moving' | 'active'
}

/** The latest recorded layout, and the latest active one. */
export interface LayoutHistory {
  /** null if no service has started on this store yet */
  latest: RecordedLayout | null
  /** null if no layout was ever active */
  active: Layout | null
}

const STATES: RecordedLayout['state'][] = ['changing', 'moving', 'active']

/** @param first the first shard, the only one with the table */
export async function readLayouts(first: ClickHouse, signal?: AbortSignal): Promise<LayoutHistory> {
  const rows = await first.rows<RecordedLayout>(
    `SELECT version, lanes, shards, state FROM layouts
     GROUP BY version, lanes, shards, state ORDER BY min(changed_at), lanes, shards`,
    {},
    {},
    { signal },
  )
  // The states of a version follow one another in one direction only. If two services recorded different layouts at the
  // same time, for example at their first start, the first one counts for both.
  const order = ({ version, state }: RecordedLayout) => version * STATES.length + STATES.indexOf(state)
  rows.sort((a, b) => order(b) - order(a))
  const active = rows.find(({ state }) => state === 'active')
  return {
    latest: rows[0] ?? null,
    active: active ? { version: active.version, lanes: active.lanes, shards: active.shards } : null,
  }
}

/** Records a layout. Recording the same one twice has no effect. @param now epoch ms */
export async function recordLayout(first: ClickHouse, layout: RecordedLayout, now: number): Promise<void> {
  const { version, lanes, shards, state } = layout
  await first.command(
    `INSERT INTO layouts (version, lanes, shards, state, changed_at)
     SELECT {version:UInt32}, {lanes:UInt16}, {shards:UInt16}, {state:String}, {now:Int64}`,
    { version, lanes, shards, state, now },
  )
}
