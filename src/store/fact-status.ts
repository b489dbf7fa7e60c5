import type { ClickHouse } from '../clickhouse/client.js'
import { readLeftOut, SETTLED } from './event-changes.js'

/** The progress of the facts of a shard. */
export interface FactsStatus {
  /** rows of `events`, except of projects that are not copied */
  events: number
  /** rows of facts of the same projects */
  facts: number
  /** events of projects that are too small to be copied */
  few: number
  /** bytes of facts and session facts on the disk */
  bytes: number
  /** when the last event that was copied was accepted, epoch ms; null if there is none */
  reachedAt: number | null
  /** time since a leader last copied or checked, ms by the server's clock; null if none ever did */
  silentMs: number | null
  /** changes that facts have not followed yet */
  changes: number
  /** projects that are not copied */
  leftOut: string[]
}

/** @param least a project with fewer events is not copied */
export async function readFactsStatus(
  clickhouse: ClickHouse,
  least: number,
  signal?: AbortSignal,
): Promise<FactsStatus> {
  const leftOut = [...(await readLeftOut(clickhouse))]
  const counts = await countCopied(clickhouse, { least, leftOut }, signal)
  const [row] = await clickhouse.rows<Record<'facts' | 'bytes' | 'reached' | 'silent' | 'changes', string>>(
    // The counts of parts include deleted rows.
    `WITH (SELECT argMax((generation, written_at), version) FROM facts_state) AS state
     SELECT (SELECT count() FROM event_facts WHERE project_id NOT IN {leftOut:Array(String)}) AS facts,
       sum(bytes_on_disk) AS bytes,
       (SELECT toString(bitShiftRight(max(hi), 80)) FROM facts_progress WHERE generation = state.1) AS reached,
       if(state.1 = 0, -1, date_diff('millisecond', state.2, now64(3))) AS silent,
       (SELECT count() FROM event_changes FINAL WHERE state < ${SETTLED}) AS changes
     FROM system.parts
     WHERE database = currentDatabase() AND table IN ('event_facts', 'session_facts') AND active
       AND NOT startsWith(partition_id, 'patch-')`,
    { leftOut },
    {},
    { signal },
  )
  const number = (text: string | undefined) => Number(text ?? 0)
  const reached = number(row?.reached)
  const silent = number(row?.silent ?? '-1')
  return {
    ...counts,
    facts: number(row?.facts),
    bytes: number(row?.bytes),
    reachedAt: reached === 0 ? null : reached,
    silentMs: silent < 0 ? null : silent,
    changes: number(row?.changes),
    leftOut,
  }
}

/** Counts the events of the projects that are copied, and of those that have too few. */
async function countCopied(
  clickhouse: ClickHouse,
  { least, leftOut }: { least: number; leftOut: string[] },
  signal: AbortSignal | undefined,
): Promise<Pick<FactsStatus, 'events' | 'few'>> {
  const [row] = await clickhouse.rows<{ events: string; few: string }>(
    `SELECT sumIf(count, is_copied) AS events, sumIf(count, NOT is_copied) AS few FROM (
       SELECT project_id, count() AS count, count >= {least:UInt64} OR project_id IN (
         SELECT project_id FROM facts_progress
         WHERE generation = (SELECT argMax(generation, version) FROM facts_state) AND hi > 0
       ) AS is_copied
       FROM events WHERE project_id NOT IN {leftOut:Array(String)} GROUP BY project_id
     )`,
    { least, leftOut },
    {},
    { signal },
  )
  return { events: Number(row?.events ?? 0), few: Number(row?.few ?? 0) }
}
