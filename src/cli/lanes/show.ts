import type { Shard, Shards } from '../../clickhouse/shards.js'
import type { Config } from '../../config.js'
import { describeLayout } from '../../lanes/layout.js'
import { lanePlace, openRelocation } from '../../lanes/open-journal.js'
import { failureText } from '../../lib/failure-text.js'
import type { Log } from '../../lib/log.js'
import { openTerminalLog } from '../../lib/log.js'
import { using } from '../../lib/using.js'
import { readShardSize } from '../../store/disks.js'
import { type LayoutHistory, readLayouts } from '../../store/layouts.js'
import { openStore } from '../../store/open.js'
import { alignColumns } from '../columns.js'
import type { CommandIo } from '../command.js'

interface LaneStatus {
  lane: number
  /** the shard that its writer stores on */
  shard: number
  place: string
  /** `closed`: it takes no writes, because the layout is being changed */
  state: 'up' | 'closed' | 'down'
  /** the journal's number in its event ids */
  journal: number | null
  /** entries that wait for the store */
  entries: number | null
  bytes: number | null
  oldest_ms: number | null
  /** version of the layout that the journal belongs to */
  version: number | null
  reason?: string
}

interface ShardStatus {
  shard: number
  place: string
  state: 'up' | 'down'
  /** events */
  rows: number | null
  /** size on disk of all tables */
  bytes: number | null
  reason?: string
}

/** @returns 0 if all lanes and shards are up and the layout is active, else 1 */
export async function showLanes(config: Config, asJson: boolean, { stdout, stderr }: CommandIo): Promise<number> {
  return await using(openStore(config, { areAllNeeded: false }), async (store) => {
    stderr.write(`Store: ${store.place}\n`)
    const log = await openTerminalLog('silent', stderr)
    const history = await readLayouts(store.shards.first)
    const { active } = history
    if (!active) throw new Error('The store has no layout yet: no service has started on it.')
    const numbers = Array.from({ length: active.lanes }, (_, lane) => lane)
    const lanes = await Promise.all(numbers.map((lane) => laneStatus(config, lane, active.shards, log)))
    const shards = await Promise.all(store.shards.all.map(shardStatus))
    if (asJson) stdout.write(`${JSON.stringify({ layout: history.latest, active, lanes, shards })}\n`)
    else stdout.write(tables(history, lanes, shards))
    warn(config, store.shards, history, stderr)
    const isWell = [...lanes, ...shards].every(({ state }) => state === 'up')
    return isWell && history.latest?.state === 'active' ? 0 : 1
  })
}

async function laneStatus(config: Config, lane: number, shards: number, log: Log): Promise<LaneStatus> {
  const common = { lane, shard: lane % shards, place: lanePlace(config, lane) }
  const unknown = { journal: null, entries: null, bytes: null, oldest_ms: null, version: null }
  try {
    const status = await using(openRelocation(config, lane, log), (journal) => journal.readStatus())
    if (!status) return { ...common, state: 'down', ...unknown, reason: 'There is no journal.' }
    const { id, closedFor, layout, depth } = status
    return {
      ...common,
      state: closedFor === null ? 'up' : 'closed',
      journal: id,
      entries: depth.entries,
      bytes: depth.bytes,
      oldest_ms: depth.oldestMs,
      version: layout,
    }
  } catch (error) {
    return { ...common, state: 'down', ...unknown, reason: failureText(error) }
  }
}

async function shardStatus({ number, name, clickhouse }: Shard): Promise<ShardStatus> {
  try {
    return { shard: number, place: name, state: 'up', ...(await readShardSize(clickhouse)) }
  } catch (error) {
    return { shard: number, place: name, state: 'down', rows: null, bytes: null, reason: failureText(error) }
  }
}

function tables({ latest, active }: LayoutHistory, lanes: LaneStatus[], shards: ShardStatus[]): string {
  const count = (number: number | null) => (number === null ? '-' : String(number))
  const head = `Layout ${active?.version}: ${active ? describeLayout(active) : '-'}\n`
  const change =
    latest && latest.state !== 'active' ? `Changing to layout ${latest.version}: ${describeLayout(latest)}\n` : ''
  const ofLanes = lanes.map(({ lane, shard, state, journal, entries, bytes, oldest_ms, place, reason = '' }) => {
    const oldest = oldest_ms === null ? '-' : `${(oldest_ms / 1000).toFixed(1)} s`
    return [count(lane), count(shard), state, count(journal), count(entries), count(bytes), oldest, place, reason]
  })
  const ofShards = shards.map(({ shard, state, rows, bytes, place, reason = '' }) => {
    return [count(shard), state, count(rows), count(bytes), place, reason]
  })
  const laneTable = alignColumns([
    ['LANE', 'SHARD', 'STATE', 'JOURNAL', 'ENTRIES', 'BYTES', 'OLDEST', 'PLACE', ''],
    ...ofLanes,
  ])
  return `${head}${change}\n${laneTable}\n${alignColumns([['SHARD', 'STATE', 'EVENTS', 'BYTES', 'PLACE', ''], ...ofShards])}`
}

function warn(config: Config, shards: Shards, { active }: LayoutHistory, stderr: CommandIo['stderr']): void {
  if (!active || (active.lanes === config.LANES && active.shards === shards.all.length)) return
  const given = describeLayout({ lanes: config.LANES, shards: shards.all.length })
  stderr.write(`These settings have ${given}. A service with them does not start; see tallyhouse lanes --help.\n`)
}
