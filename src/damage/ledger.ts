import type { Shards } from '../clickhouse/shards.js'
import type { ProjectTally, Tally } from '../journal/journal.js'
import { countRefused, countStored, readBases, readDeleted, writeBases } from '../store/ledger.js'

/** The outcomes of all received events of a project: each event is in exactly one of the counts. */
export interface ProjectLedger {
  project: string
  received: number
  stored: number
  /** repeated events, recognized by their keys or ids and not accepted again */
  repeated: number
  /** events in dead letters that were not replayed */
  refused: number
  /** includes what interrupted deletions have deleted; see `DeletionCounter` */
  deleted: number
  waiting: number
  /** received, but in none of these counts: lost */
  missing: number
  /** events in these counts that were not received: they hide the same number of losses */
  unexplained: number
  /** start of the count, epoch ms; 0: the beginning */
  since: number
}

/**
 * Compares the events that the journals have acknowledged with their outcomes. This works while the service runs:
 * events stored after the tallies are left out, and each count is read before the counts that its events may move to.
 * So an event may be counted twice, but only lost ones are missing.
 * @param tallies of all journals of the layout, read before the call
 * @param layout its version
 */
export async function readLedger(shards: Shards, tallies: readonly Tally[], layout: number): Promise<ProjectLedger[]> {
  const bases = await readBases(shards.first, layout)
  const refused = await countRefused(shards, tallies)
  const stored = await countStored(shards, tallies)
  const deleted = await readDeleted(shards)
  const names = [bases, refused, stored, deleted, ...tallies.map(({ projects }) => projects)].flatMap((map) => [
    ...map.keys(),
  ])
  return [...new Set(names)].sort().map((project) => {
    const sum = (field: keyof ProjectTally) =>
      tallies.reduce((all, { projects }) => all + (projects.get(project)?.[field] ?? 0), 0)
    const { carried = 0, since = 0 } = bases.get(project) ?? {}
    const settled = sum('acknowledged') + carried
    const counts = {
      stored: stored.get(project) ?? 0,
      repeated: sum('repeated'),
      refused: refused.get(project) ?? 0,
      deleted: deleted.get(project) ?? 0,
      waiting: sum('waiting'),
    }
    const difference = settled - counts.stored - counts.refused - counts.deleted
    return {
      project,
      received: settled + counts.repeated + counts.waiting,
      ...counts,
      missing: Math.max(0, difference),
      unexplained: Math.max(0, -difference),
      since,
    }
  })
}

/**
 * Restarts the count of projects whose ledger does not add up, taking the existing events as the received ones: after a
 * restore, after an import of a whole store, or to accept a loss.
 * @param now epoch ms
 */
export async function countAnew(
  shards: Shards,
  layout: number,
  ledgers: readonly ProjectLedger[],
  now: number,
): Promise<ProjectLedger[]> {
  const differing = ledgers.filter(({ missing, unexplained }) => missing !== unexplained)
  const before = await readBases(shards.first, layout)
  const bases = differing.map(({ project, missing, unexplained }) => {
    const carried = (before.get(project)?.carried ?? 0) - missing + unexplained
    return [project, { carried, since: now }] as const
  })
  await writeBases(shards.first, layout, new Map(bases), now)
  return differing
}

/** Formats a ledger as one line of text. */
export function describeLedger(ledger: ProjectLedger): string {
  const { project, received, stored, repeated, refused, deleted, waiting, missing, unexplained, since } = ledger
  const sum = `${stored} stored + ${repeated} repeated + ${refused} refused + ${deleted} deleted + ${waiting} waiting`
  const from = since > 0 ? `, counted since ${new Date(since).toISOString()}` : ''
  const line = `${project}: ${received} received = ${sum}`
  if (missing > 0) return `${line} + ${missing} missing${from}.`
  if (unexplained === 0) return `${line}${from}.`
  return (
    `${line} - ${unexplained} that were not received${from}. Two deletions of the same events overlapped, or one is running, or a journal was replaced or restored. ` +
    'The same number of losses would go unnoticed: `tallyhouse verify --accept` restarts the count.'
  )
}
