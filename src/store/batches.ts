import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Journal } from '../journal/journal.js'
import type { BatchPlace } from '../model/batch-id.js'
import { formatEventId } from '../model/event-id.js'
import { countEventsInDeadLetters, eraseEventsFromDeadLetters } from './dead-letter-erasure.js'
import { DELETE_LIMIT_MS, DeletionCounter } from './deleted-events.js'
import { deleteEvents, matchEntries } from './events.js'

/** Events of some batches. */
export interface BatchEvents {
  events: number
  /** events with an `insert_id` */
  withInsertId: number
}

/**
 * Counts the events of batches that are neither deleted nor expired, including those in dead letters, which may still be
 * replayed. Expired ones in dead letters count until they are removed.
 */
export async function countEventsOfBatches(
  shards: Shards,
  projectId: string,
  batches: readonly BatchPlace[],
): Promise<BatchEvents> {
  const fields = new QueryParameters()
  const [row] = await shards.rows<{ events: string; with_insert_id: string }>(
    `SELECT count() AS events, countIf(insert_id != '') AS with_insert_id FROM ${shards.table('events')}
     WHERE ${matchEntries(fields, projectId, toIds(batches))}`,
    fields.parameters,
    {},
    { limitMs: DELETE_LIMIT_MS, project: projectId },
  )
  const waiting = await countEventsInDeadLetters(shards, projectId, batches)
  return {
    events: Number(row?.events ?? 0) + waiting.events,
    withInsertId: Number(row?.with_insert_id ?? 0) + waiting.withInsertId,
  }
}

/**
 * Deletes the events of batches on every shard, because a change of the layout may have moved their lane.
 * @param noteDeletion counts a deletion of the project's events, visible to all processes
 */
export async function deleteEventsOfBatches(
  shards: Shards,
  projectId: string,
  batches: readonly BatchPlace[],
  noteDeletion: Journal['noteDeletion'],
): Promise<void> {
  const fields = new QueryParameters()
  const ids = toIds(batches)
  const condition = matchEntries(fields, projectId, ids)
  const { parameters } = fields
  try {
    await shards.each(async ({ clickhouse }) => {
      await eraseEventsFromDeadLetters(clickhouse, projectId, batches)
      const counter = await DeletionCounter.open(clickhouse, projectId)
      const scope = { kind: 'entry' as const, deleted: ids }
      await deleteEvents(clickhouse, counter, { projectId, scope, condition, parameters })
    })
  } finally {
    // Do this even if a shard has failed, because the events of the others are gone.
    await noteDeletion(projectId)
  }
}

/** The ids of the first events of batches. */
function toIds(batches: readonly BatchPlace[]): string[] {
  return batches.map((place) => formatEventId({ ...place, index: 0 }))
}
