import { type IdUse, INSERT_ID_MEMORY_MS } from '../journal/insert-id-memory.js'
import { gauge, type Metric, numbered } from './metric.js'

/** Maximum number of listed senders, those with the most ids forgotten early. */
const MAX_LISTED = 100

/**
 * How many insert_ids are remembered: in total, and for each project and kind of key whose older ids were forgotten
 * because it sent too many.
 * @param lanes by number; null for a lane that did not respond
 * @param now epoch ms
 */
export function buildIdMetrics(lanes: readonly (readonly IdUse[] | null)[], now: number): Metric[] {
  const labels = (lane: number) => (lanes.length === 1 ? {} : { lane: String(lane) })
  const sums = numbered('lane', lanes, (uses) => uses?.reduce((sum, { ids }) => sum + ids, 0) ?? null)
  const short = lanes.flatMap((uses, lane) =>
    (uses ?? []).flatMap(({ sender, ids, since, isRequested }) => {
      if (since === null || isRequested) return []
      return { ids, since, labels: { project: sender.projectId, kind: sender.keyClass, ...labels(lane) } }
    }),
  )
  const listed = short.sort((a, b) => b.ids - a.ids).slice(0, MAX_LISTED)
  return [
    gauge('tallyhouse_remembered_insert_ids', 'Ids of events and changes that are remembered.', sums),
    gauge(
      'tallyhouse_insert_ids',
      'Ids that are remembered, of projects and kinds of key whose older ids were forgotten early.',
      listed.map(({ labels, ids }) => [labels, ids]),
    ),
    gauge(
      'tallyhouse_insert_id_window_seconds',
      'How long the ids of these projects are remembered, instead of 7 days.',
      listed.map(({ labels, since }) => [labels, Math.min(INSERT_ID_MEMORY_MS, Math.max(0, now - since)) / 1000]),
    ),
  ]
}
