import type { ClickHouse } from '../clickhouse/client.js'
import { SETTLED } from './event-changes.js'

/** A state of a project's facts on one shard: facts up to `step`, and `events` with ids after `hi`. */
export interface ShardPoint {
  /** facts have all events of the project with ids up to here, as numbers */
  hi: bigint
  /** rows of greater steps do not belong to it */
  step: number
  /** whether a step is running, so that a reading of all steps is wrong from the start */
  isStepping: boolean
  /** see facts_state */
  begun: number
  generation: number
  /** differs if there was a change of the project since */
  changes: string
}

/** SQL for what differs after each change of a project. */
const CHANGES = `(SELECT concat(toString(uniqExact(id)), ' ', toString(max(noted_at))) FROM event_changes
  WHERE project_id = {project:String})`
/** SQL for whether facts of a generation were compared with the events since ClickHouse has started. */
const isChecked = (generation: string) => `${generation} IN (SELECT generation FROM facts_checked)`

/**
 * The point of a project's facts on a shard now; null if there are none that may be read.
 * @returns `isOpen`: whether changes of the project wait to be followed, or run
 */
export async function readFactsPoint(
  clickhouse: ClickHouse,
  projectId: string,
): Promise<{ point: ShardPoint | null; isOpen: boolean }> {
  const [row] = await clickhouse.rows<{
    begun: string
    valid: string
    done: string
    known: string
    reached: string
    last: string
    changes: string
    open: string
  }>(
    // One scan of facts_progress, so that all it says is of the same moment.
    `WITH (SELECT argMax((begun, generation), version) FROM facts_state) AS state
     SELECT state.1 AS begun, state.2 AS valid, max(p.step) AS done, countIf(p.project_id = {project:String}) AS known,
       toString(argMaxIf(p.hi, p.step, p.project_id = {project:String})) AS reached,
       maxIf(p.step, p.project_id = {project:String}) AS last, ${CHANGES} AS changes,
       (SELECT count() FROM event_changes FINAL WHERE project_id = {project:String} AND state < ${SETTLED}) AS open
     FROM facts_progress AS p WHERE p.generation = state.2 AND ${isChecked('p.generation')}`,
    { project: projectId },
  )
  if (!row) return { point: null, isOpen: false }
  const { begun, valid, done, known, reached, last, changes, open } = row
  const point = {
    hi: BigInt(reached),
    step: Number(last),
    isStepping: Number(begun) > Number(done),
    begun: Number(begun),
    generation: Number(valid),
    changes,
  }
  return { point: Number(known) > 0 ? point : null, isOpen: Number(open) > 0 }
}

/** Whether facts of a shard are still as they were at a point of the project. */
export async function isAtPoint(
  clickhouse: ClickHouse,
  projectId: string,
  point: ShardPoint,
  isBounded: boolean,
): Promise<boolean> {
  const [row] = await clickhouse.rows<{ begun: string; generation: string; changes: string; checked: number }>(
    `SELECT begun, generation, ${CHANGES} AS changes, ${isChecked('generation')} AS checked
     FROM facts_state ORDER BY version DESC LIMIT 1`,
    { project: projectId },
  )
  if (!row || row.checked === 0) return false
  if (Number(row.generation) !== point.generation || row.changes !== point.changes) return false
  return isBounded || (!point.isStepping && Number(row.begun) === point.begun)
}
