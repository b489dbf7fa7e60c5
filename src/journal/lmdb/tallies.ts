import type { Entry, Outcome, ProjectTally, Write } from '../journal.js'
import type { Draft } from './draft.js'
import { encodeNumber } from './encoding.js'
import type { LmdbTables } from './tables.js'

type Tallies = LmdbTables['tallies']

/**
 * Prefixes of a project's two counts. They have separate keys, because an acknowledgement and a write may run in
 * parallel.
 */
const FIELDS = { a: 'acknowledged', r: 'repeated' } as const
type Field = keyof typeof FIELDS
const NOTHING: ProjectTally = { acknowledged: 0, repeated: 0, waiting: 0 }

/** Counts the events of a block that is acknowledged. Call it within the transaction that does so. */
export function countAcknowledged(tallies: Tallies, entries: readonly Entry[]): void {
  const counts = new Map<string, number>()
  for (const { kind, projectId, count } of entries) {
    if (kind === 'events') counts.set(projectId, (counts.get(projectId) ?? 0) + count)
  }
  for (const [project, count] of counts) {
    const key = toKey('a', project)
    tallies.put(key, encodeNumber(decode(tallies.get(key)) + count))
  }
}

/** Counts the known events of a write, without those that were refused for their keys and have to be sent again. */
export function countRepeated(tallies: Tallies, write: Write, outcome: Outcome, draft: Draft): void {
  if (write.type !== 'append' || write.kind === 'rejected') return
  const count = outcome.status === 'repeated' ? write.count : repeatedIn(outcome)
  if (count === 0) return
  const key = toKey('r', write.projectId)
  draft.put(tallies, key, encodeNumber(decode(draft.get(tallies, key)) + count))
}

function repeatedIn(outcome: Outcome): number {
  if (outcome.status !== 'done' && outcome.status !== 'known') return 0
  const { known = [], refused } = outcome
  return refused ? refused.filter(({ status }) => status === 'repeated').length : known.length
}

/** Reads the counts, without the waiting events. */
export function readTallies(tallies: Tallies): Map<string, ProjectTally> {
  const projects = new Map<string, ProjectTally>()
  for (const { key, value } of tallies.getRange()) {
    const project = key.toString('utf8', 1)
    const field = FIELDS[key.toString('latin1', 0, 1) as Field]
    projects.set(project, { ...(projects.get(project) ?? NOTHING), [field]: decode(value) })
  }
  return projects
}

/** Adds events of a project that wait for the store. */
export function addWaiting(projects: Map<string, ProjectTally>, project: string, count: number): void {
  const tally = projects.get(project) ?? NOTHING
  projects.set(project, { ...tally, waiting: tally.waiting + count })
}

function toKey(field: Field, project: string): Buffer {
  return Buffer.from(field + project)
}

function decode(value: Buffer | undefined): number {
  return value ? Number(value.readBigUInt64BE()) : 0
}
