import type { Shards } from '../clickhouse/shards.js'
import type { ProjectTally, Tally } from '../journal/journal.js'
import { countRefused, countStored, readBases, readDeleted, writeBases } from '../store/ledger.js'

/** What became of all events of a project that were received: each is in one of the counts. */
export interface ProjectLedger {
  project: string
  received: number
  stored: number
  /** not accepted again, because their keys or ids were known */
  repeated: number
  /** in dead letters that were not replayed */
  refused: number
  /** also those that are being deleted, and those whose deletion failed */
  deleted: number
  waiting: number
  /** in none of these: lost */
  missing: number
  /** in these, but not received: as many losses would not be noticed */
  unexplained: number
  /** since when it is counted, epoch ms; 0: from the beginning */
  since: number
}

/**
 * Compares what the journals have acknowledged with what became of it. A running service does not disturb it: what is stored
 * after the tallies is left out, and each count is read before those to which an event may go from there. So an event may be
 * counted twice, but none is missing that is not lost.
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
 * Takes what is there as what was received, of projects where the two differ: after a restore, an import of a whole store, or a
 * loss that is given up.
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

/** A ledger as a line of text. */
export function describeLedger(ledger: ProjectLedger): string {
  const { project, received, stored, repeated, refused, deleted, waiting, missing, unexplained, since } = ledger
  const sum = `${stored} stored + ${repeated} repeated + ${refused} refused + ${deleted} deleted + ${waiting} waiting`
  const from = since > 0 ? `, counted since ${new Date(since).toISOString()}` : ''
  const line = `${project}: ${received} received = ${sum}`
  if (missing > 0) return `${line} + ${missing} missing${from}.`
  if (unexplained === 0) return `${line}${from}.`
  return (
    `${line} - ${unexplained} that were not received${from}. A deletion failed or is running, or a journal was replaced. ` +
    'That many losses would go unnoticed: `tallyhouse verify --accept` restarts the count.'
  )
}
