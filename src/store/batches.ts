import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { BatchPlace } from '../model/batch-id.js'
import { formatEventId, lastIdAt } from '../model/event-id.js'
import { DELETE_LIMIT_MS, DeletionCounter } from './deleted-events.js'
import { logChange } from './event-changes.js'
import { deleteEvents, ENTRY_MASK } from './events.js'

/** Stored events of some batches. */
export interface BatchEvents {
  events: number
  /** events with an `insert_id` */
  withInsertId: number
}

/** Counts the events of batches that are stored and not deleted. */
export async function countEventsOfBatches(
  shards: Shards,
  projectId: string,
  batches: readonly BatchPlace[],
): Promise<BatchEvents> {
  const fields = new QueryParameters()
  const [row] = await shards.rows<{ events: string; with_insert_id: string }>(
    `SELECT count() AS events, countIf(insert_id != '') AS with_insert_id FROM ${shards.table('events')}
     WHERE ${matchBatches(fields, projectId, batches)}`,
    fields.parameters,
    {},
    { limitMs: DELETE_LIMIT_MS },
  )
  return { events: Number(row?.events ?? 0), withInsertId: Number(row?.with_insert_id ?? 0) }
}

/** Deletes the events of batches on every shard, because a change of the layout may have moved their lane. */
export async function deleteEventsOfBatches(
  shards: Shards,
  projectId: string,
  batches: readonly BatchPlace[],
): Promise<void> {
  const fields = new QueryParameters()
  const condition = matchBatches(fields, projectId, batches)
  const { parameters } = fields
  await shards.each(async ({ clickhouse }) => {
    const months = await clickhouse.rows<{ id: string }>(
      `SELECT DISTINCT _partition_id AS id FROM events WHERE ${condition} ORDER BY id`,
      parameters,
      {},
      { limitMs: DELETE_LIMIT_MS },
    )
    if (months.length === 0) return
    const counter = await DeletionCounter.open(clickhouse, projectId)
    for (const { id } of months) {
      // Facts are not found by batch, so those of the whole month are compared with its events.
      await logChange(clickhouse, new Map([[projectId, { kind: 'month', month: id, before: null }]]), () =>
        deleteEvents(clickhouse, counter, {
          projectId,
          condition: `${condition} AND _partition_id = {month:String}`,
          parameters: { ...parameters, month: id },
          isResumable: true,
        }),
      )
    }
  })
}

/** SQL condition. The first and the last possible id limit the range of the primary key that is read. */
function matchBatches(fields: QueryParameters, projectId: string, batches: readonly BatchPlace[]): string {
  const positions = batches.map(({ position }) => position).sort((a, b) => (a < b ? -1 : 1))
  const [first = 0n, last = 0n] = [positions[0], positions.at(-1)]
  const least = fields.array([formatEventId({ position: first, index: 0, journalId: 0 })], 'UUID')
  const greatest = fields.array([lastIdAt(last)], 'UUID')
  const ids = fields.array(
    batches.map((place) => formatEventId({ ...place, index: 0 })),
    'UUID',
  )
  return `project_id = ${fields.text(projectId)}
    AND toUInt128(event_id) >= toUInt128(${least}[1]) AND toUInt128(event_id) <= toUInt128(${greatest}[1])
    AND bitAnd(toUInt128(event_id), toUInt128('${ENTRY_MASK}')) IN arrayMap(id -> toUInt128(id), ${ids})`
}
