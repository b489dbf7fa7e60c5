import { formatMonth, type Loss } from '../damage/loss.js'
import type { PartsWatch } from '../damage/parts-watch.js'
import { gauge, type LabeledValue, type Metric } from './metric.js'

/** Maximum number of losses in the metrics; the rest is only in the log. */
const MAX_LINES = 100

const STATES = ['detached', 'missing', 'unreadable'] as const

/**
 * The losses of the store. Labels may have the names of projects here: operators choose them, few have losses, and an
 * alert must say whose data is lost.
 */
export function buildLossMetrics(parts: Pick<PartsWatch, 'byShard'>): Metric[] {
  const shards = parts.byShard()
  const of = (shard: number): Record<string, string> => (shards.length > 1 ? { shard: String(shard) } : {})
  const counts = shards.flatMap((losses, shard) =>
    STATES.map((state): LabeledValue<number> => {
      return [{ ...of(shard), state }, losses?.filter((loss) => loss.state === state).length ?? null]
    }),
  )
  const rows = new Map<string, LabeledValue<number>>()
  for (const loss of shards.flatMap((losses) => losses ?? [])) {
    for (const [project, count] of countRows(loss)) {
      const month = loss.table === 'events' ? formatMonth(loss.partition) : ''
      const labels = { ...of(loss.shard), table: loss.table, month, project }
      const key = JSON.stringify(labels)
      rows.set(key, [labels, (rows.get(key)?.[1] ?? 0) + count])
    }
  }
  return [
    gauge(
      'tallyhouse_store_lost_parts',
      'Parts that ClickHouse has detached, has lost (missing), or cannot read (unreadable).',
      counts,
    ),
    gauge(
      'tallyhouse_store_lost_rows',
      'Rows in lost and damaged parts; events by the month of acceptance.',
      [...rows.values()].slice(0, MAX_LINES),
    ),
  ]
}

/** Rows by project; rows that were not counted by project have an empty name. */
function countRows({ rows, projects }: Loss): [project: string, rows: number][] {
  const named = Object.entries(projects)
  const rest = (rows ?? 0) - named.reduce((sum, [, count]) => sum + count, 0)
  return rest > 0 ? [...named, ['', rest]] : named
}
