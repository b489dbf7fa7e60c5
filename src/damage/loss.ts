import type { LostPart } from '../store/part-notes.js'
import { isPatch } from '../store/parts.js'

/** Rows that the store has lost or cannot read. */
export interface Loss extends Omit<LostPart, 'state' | 'isSettled'> {
  /** number of the shard */
  shard: number
  /** `unreadable`: the part is active, but reading it failed */
  state: LostPart['state'] | 'unreadable'
}

/** Maximum number of projects in a sentence. */
const MAX_NAMED = 5
const NOUNS: Record<string, string> = {
  dead_letters: 'dead letters',
  dead_letter_replays: 'replays of dead letters',
  api_keys: 'API keys',
  saved: 'saved questions',
  projects: 'versions of settings',
  project_usage: 'counts of usage',
  facts_left_out: 'exclusions from facts',
  ledger_bases: 'bases of the ledger',
  audit: 'entries of the audit log',
}

/** What to do about any loss. */
export const WHAT_TO_DO =
  'Reads continue without it. Restore the part from a backup or a replica, as "Lost and damaged data" in ' +
  'docs/damage.md says; `tallyhouse verify` shows everything that is lost.'

/** Describes a loss and its contents in one sentence. */
export function describeLoss({ table, partition, part, state, reason, rows, projects }: Loss): string {
  const what = isPatch({ partition }) ? 'edits and deletions of events' : (NOUNS[table] ?? table)
  const month = table === 'events' && partition !== '' ? ` of ${formatMonth(partition)}` : ''
  const held = `${rows === null ? 'an unknown number of' : rows} ${what}${month}`
  return `The store ${SAID[state](part, reason)}: ${held}${formatProjects(projects)}.`
}

const SAID: Record<Loss['state'], (part: string, reason: string) => string> = {
  detached: (part, reason) => `has detached the part ${part}${reason && ` as ${reason}`}`,
  missing: (part) => `has lost the part ${part}, which is no longer on its disk`,
  unreadable: (part) => `cannot read the part ${part}, which is damaged`,
}

function formatProjects(projects: Record<string, number>): string {
  const all = Object.entries(projects)
  if (all.length === 0) return ''
  const named = all.slice(0, MAX_NAMED).map(([project, count]) => `${project} (${count})`)
  const more = all.length > MAX_NAMED ? [`${all.length - MAX_NAMED} more`] : []
  return ` of ${all.length === 1 ? 'the project' : 'the projects'} ${[...named, ...more].join(', ')}`
}

/** Formats the month of a partition such as 202611, or of a partition of patches. */
export function formatMonth(partition: string): string {
  const id = partition.split('-').at(-1) ?? partition
  return /^\d{6}$/.test(id) ? `${id.slice(0, 4)}-${id.slice(4)}` : id
}
