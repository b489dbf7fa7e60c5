import type { ClickHouse } from '../clickhouse/client.js'
import { readLeftOut, SETTLED } from './event-changes.js'

/** How far the facts of a shard are. */
export interface FactsStatus {
  /** rows of `events`, and of those that are to be copied, as far as their parts say */
  events: number
  facts: number
  /** of facts, on the disk */
  bytes: number
  /** when the last event that was copied was accepted, epoch ms; null if there is none */
  reachedAt: number | null
  /** when something was last copied or looked for, ms ago by the server's clock; null if nothing ever was */
  silentMs: number | null
  /** changes that facts have not followed yet */
  changes: number
  /** projects that are not copied */
  leftOut: string[]
}

export async function readFactsStatus(clickhouse: ClickHouse, signal?: AbortSignal): Promise<FactsStatus> {
  const [row] = await clickhouse.rows<Record<'events' | 'facts' | 'bytes' | 'reached' | 'silent' | 'changes', string>>(
    `WITH (SELECT argMax((generation, written_at), version) FROM facts_state) AS state
     SELECT sumIf(rows, table = 'events') AS events, sumIf(rows, table = 'event_facts') AS facts,
       sumIf(bytes_on_disk, table = 'event_facts') AS bytes,
       (SELECT toString(bitShiftRight(max(hi), 80)) FROM facts_progress WHERE generation = state.1) AS reached,
       if(state.1 = 0, -1, date_diff('millisecond', state.2, now64(3))) AS silent,
       (SELECT count() FROM event_changes FINAL WHERE state < ${SETTLED}) AS changes
     FROM system.parts
     WHERE database = currentDatabase() AND table IN ('events', 'event_facts') AND active
       AND NOT startsWith(partition_id, 'patch-')`,
    {},
    {},
    { signal },
  )
  const number = (text: string | undefined) => Number(text ?? 0)
  const reached = number(row?.reached)
  const silent = number(row?.silent ?? '-1')
  return {
    events: number(row?.events),
    facts: number(row?.facts),
    bytes: number(row?.bytes),
    reachedAt: reached === 0 ? null : reached,
    silentMs: silent < 0 ? null : silent,
    changes: number(row?.changes),
    leftOut: [...(await readLeftOut(clickhouse))],
  }
}
