import type { ClickHouse } from '../clickhouse/client.js'
import { SETTLED } from './event-changes.js'

/** A state of a project's facts that can be read: facts up to `step`, and `events` with ids after `hi`. */
export interface FactsPoint {
  /** facts have all events of the project with ids up to here, as numbers */
  hi: bigint
  /** rows of greater steps do not belong to it, so a reading is bounded by it, or nothing may be copied meanwhile */
  step: number
  /** whether a step is running, so that an unbounded reading is wrong from the start */
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

/**
 * The point of a project's facts now; null if there are none.
 * @returns `open`: whether changes of the project wait to be followed, or run
 */
export async function readFactsPoint(
  clickhouse: ClickHouse,
  projectId: string,
): Promise<{ point: FactsPoint | null; isOpen: boolean }> {
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
     FROM facts_progress AS p WHERE p.generation = state.2`,
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

/** Whether facts are still as they were at a point of the project. */
export async function isAtPoint(
  clickhouse: ClickHouse,
  projectId: string,
  point: FactsPoint,
  isBounded: boolean,
): Promise<boolean> {
  const [row] = await clickhouse.rows<{ begun: string; generation: string; changes: string }>(
    `SELECT begun, generation, ${CHANGES} AS changes FROM facts_state ORDER BY version DESC LIMIT 1`,
    { project: projectId },
  )
  if (!row || Number(row.generation) !== point.generation || row.changes !== point.changes) return false
  return isBounded || (!point.isStepping && Number(row.begun) === point.begun)
}
