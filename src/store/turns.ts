import { randomUUID } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'

/**
 * Claims a turn of work that only one process should do.
 * @param task names the work
 * @param turn counts up; for work by the hour, the hour
 * @returns whether this process has it. A process that dies keeps its turn, so the next one does what it left
 */
export async function claimTurn(shards: Shards, task: string, turn: number): Promise<boolean> {
  const id = randomUUID()
  return await shards.on(shards.at(0), async ({ clickhouse }) => {
    const [last] = await clickhouse.rows<{ turn: string }>(
      'SELECT max(turn) AS turn FROM turns WHERE task = {task:String}',
      { task },
    )
    if (Number(last?.turn ?? 0) >= turn) return false
    await clickhouse.command(
      'INSERT INTO turns (task, turn, process) SELECT {task:String}, {turn:UInt64}, {id:UUID}',
      { task, turn, id },
      { insert_deduplication_token: JSON.stringify([task, turn]), deduplicate_insert_select: 'force_enable' },
    )
    const rows = await clickhouse.rows<{ id: string }>(
      'SELECT toString(process) AS id FROM turns WHERE task = {task:String} AND turn = {turn:UInt64}',
      { task, turn },
    )
    return rows.some((row) => row.id === id)
  })
}
