import type { ClickHouse } from '../clickhouse/client.js'
import { SETTLED } from './event-changes.js'

/** `is_leading` of a new leader that has not removed the unfinished step of the previous one yet. */
export const TAKING_LEAD = 2
/**
 * A condition of every statement on facts: with the epoch that the statement belongs to, it has no effect in a later
 * one.
 */
export const STILL_LEADS = '(SELECT max(epoch) FROM facts_state) = {epoch:UInt32}'
/** Time limit for reading a point, ms; after that, a question reads `events`. */
const LIMIT_MS = 5_000

/** A state of a project's facts on one shard: facts up to `step`, and `events` with ids after `hi`. */
export interface ShardPoint {
  /** facts have all events of the project with ids up to this one, as a number */
  hi: bigint
  /** rows of greater steps do not belong to it */
  step: number
  /** whether a step is running, so that a read without a limit on steps would be wrong */
  isStepping: boolean
  /** see facts_state */
  epoch: number
  begun: number
  generation: number
  /** identifies the project's changes; differs after another one */
  changes: string
  /** whether `events` has events of the project after `hi` */
  hasLater: boolean
}

/** SQL for a value that differs after each change of a project, even if the change is forgotten. */
const CHANGES = 'toString(groupBitXorDistinct(sipHash64(id)))'
/** SQL for whether facts of a generation were compared with the events since ClickHouse started. */
const isChecked = (generation: string) => `${generation} IN facts_checked`

/**
 * Reads the current point of a project's facts on a shard; null if no facts may be read.
 * @returns `isOpen`: whether a change of the project is running or waits to be followed
 */
export async function readFactsPoint(
  clickhouse: ClickHouse,
  projectId: string,
): Promise<{ point: ShardPoint | null; isOpen: boolean }> {
  const [row] = await clickhouse.rows<
    Record<'epoch' | 'begun' | 'valid' | 'done' | 'known' | 'reached' | 'last' | 'changes' | 'open', string> & {
      leading: number
      later: number
    }
  >(
    // Each step reads one table once, so that its values are from the same moment, and depends on the previous step,
    // because ClickHouse would otherwise choose the order. A change that is logged after the first step is noticed when
    // the point is checked.
    `WITH
       (SELECT (${CHANGES}, uniqExact(id) - uniqExactIf(id, state = ${SETTLED}))
        FROM event_changes WHERE project_id = {project:String}) AS logged,
       (SELECT argMax((begun, generation, epoch, is_leading), version) FROM facts_state WHERE logged.1 != '') AS state,
       (SELECT (max(step), countIf(project_id = {project:String}), argMaxIf(hi, step, project_id = {project:String}),
          maxIf(step, project_id = {project:String}))
        FROM facts_progress WHERE generation = state.2 AND ${isChecked('generation')}) AS progress
     SELECT logged.1 AS changes, logged.2 AS open, state.1 AS begun, state.2 AS valid, state.3 AS epoch,
       state.4 AS leading, progress.1 AS done,
       progress.2 AS known, toString(progress.3) AS reached, progress.4 AS last, count() > 0 AS later
     FROM (SELECT 1 FROM events WHERE project_id = {project:String} AND toUInt128(event_id) > progress.3 LIMIT 1)`,
    { project: projectId },
    {},
    { limitMs: LIMIT_MS },
  )
  if (!row) return { point: null, isOpen: false }
  const { epoch, begun, leading, valid, done, known, reached, last, changes, open, later } = row
  const point = {
    hi: BigInt(reached),
    step: Number(last),
    isStepping: Number(begun) > Number(done) || leading === TAKING_LEAD,
    epoch: Number(epoch),
    begun: Number(begun),
    generation: Number(valid),
    changes,
    hasLater: later === 1,
  }
  return { point: Number(known) > 0 ? point : null, isOpen: Number(open) > 0 }
}

/**
 * Compares the facts of a shard with a point of the project: `same`; `stepped` if there may only be rows of further
 * steps; else `other`. It costs half as much as reading a point.
 */
export async function compareWithPoint(
  clickhouse: ClickHouse,
  projectId: string,
  point: ShardPoint,
): Promise<'same' | 'stepped' | 'other'> {
  // Reading two small tables side by side takes a quarter less CPU time than a subquery, and threads would only add to it.
  const rows = await clickhouse.rows<
    Record<'version' | 'changes', string> & Record<'epoch' | 'begun' | 'generation' | 'checked', number>
  >(
    `SELECT version, epoch, begun, generation, ${isChecked('generation')} AS checked, '' AS changes FROM facts_state
     UNION ALL
     SELECT 0, 0, 0, 0, 0, ${CHANGES} FROM event_changes WHERE project_id = {project:String}`,
    { project: projectId },
    { max_threads: 1 },
    { limitMs: LIMIT_MS },
  )
  const changes = rows.find((one) => one.changes !== '')?.changes
  const [row] = rows.sort((a, b) => Number(BigInt(b.version) - BigInt(a.version)))
  if (!row || row.checked === 0) return 'other'
  if (row.generation !== point.generation || changes !== point.changes) return 'other'
  // A new leader may not know of the previous one's last step, nor have its session facts.
  if (row.epoch !== point.epoch) return 'other'
  return row.begun === point.begun ? 'same' : 'stepped'
}
