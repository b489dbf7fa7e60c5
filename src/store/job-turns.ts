import { randomUUID } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import { deduplicateBy } from './insert.js'

/** A turn that is further in the future than this was claimed by a wrong clock, ms. */
const MAX_AHEAD_MS = DAY_MS

/**
 * Claims a turn of work that only one process should do.
 * @param task names the work
 * @param turn when it began, the same for all processes: for hourly work, the beginning of the hour, epoch ms
 * @returns whether this process has the turn. If it dies, the turn stays its own, and the next turn finishes the work
 */
export async function claimJobTurn(shards: Shards, task: string, turn: number): Promise<boolean> {
  if ((await readLastJobTurn(shards, task, turn)) >= turn) return false
  const id = randomUUID()
  return await shards.onFirst((clickhouse) => claimTurn(clickhouse, task, turn, id))
}

/**
 * Claims a turn, as `claimJobTurn` does. If the response is lost, repeat the call with the same `id`.
 * @param clickhouse that of the first shard
 * @param id a UUID that says who claims
 */
export async function claimTurn(clickhouse: ClickHouse, task: string, turn: number, id: string): Promise<boolean> {
  await clickhouse.command(
    'INSERT INTO turns (task, turn, process) SELECT {task:String}, {turn:UInt64}, {id:UUID}',
    { task, turn, id },
    deduplicateBy(JSON.stringify([task, turn])),
  )
  const rows = await clickhouse.rows<{ id: string }>(
    'SELECT toString(process) AS id FROM turns WHERE task = {task:String} AND turn = {turn:UInt64}',
    { task, turn },
  )
  return rows.some((row) => row.id === id)
}

/** The last turn that was claimed, epoch ms; 0 if there is none. @param now epoch ms */
export async function readLastJobTurn(shards: Shards, task: string, now: number): Promise<number> {
  const rows = await shards.onFirst((clickhouse) =>
    clickhouse.rows<{ last: string }>(
      'SELECT max(turn) AS last FROM turns WHERE task = {task:String} AND turn <= {most:UInt64}',
      { task, most: Math.trunc(now) + MAX_AHEAD_MS },
    ),
  )
  return Number(rows[0]?.last ?? 0)
}

/** Counts the turns that were claimed after a time, up to another, epoch ms. */
export async function countJobTurns(shards: Shards, task: string, after: number, upTo: number): Promise<number> {
  const rows = await shards.onFirst((clickhouse) =>
    clickhouse.rows<{ count: string }>(
      'SELECT uniqExact(turn) AS count FROM turns WHERE task = {task:String} AND turn > {after:UInt64} AND turn <= {upTo:UInt64}',
      { task, after: Math.trunc(after), upTo: Math.trunc(upTo) },
    ),
  )
  return Number(rows[0]?.count ?? 0)
}
