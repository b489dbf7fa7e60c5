/** How far the facts of a project have come. */
export interface FactsPoint {
  /** facts have all events of the project with ids up to here, as `toUInt128` */
  hi: bigint
  /** number of the last step that is complete */
  step: number
  /** whether another step is running, whose rows must not be read */
  isStepping: boolean
}

/** Says how far facts have come. */
export interface FactsReader {
  /** @returns null if the project's questions cannot be answered from facts now */
  point(projectId: string): Promise<FactsPoint | null>
  /** Whether what was read since is the state of the point. @param isBounded whether rows of later steps were left out */
  stillHolds(projectId: string, point: FactsPoint, isBounded: boolean): Promise<boolean>
}

/** Which rows a statement reads from `event_facts`; those of the events after `hi` it reads from `events`. */
export interface FactsBounds {
  hi: bigint
  /** null: of every step */
  step: number | null
}
