import type { ProjectLedger } from '../damage/ledger.js'
import { gauge, type LabeledValue, type Metric } from './metric.js'

/** Maximum number of projects with their own lines: those with missing events first, then the largest. */
const MAX_PROJECTS = 100

const STATES = ['stored', 'repeated', 'refused', 'deleted', 'waiting', 'missing', 'unexplained'] as const

/** How many events of each project were stored, refused and deleted. Empty until the first count. */
export function buildLedgerMetrics(ledgers: readonly ProjectLedger[]): Metric[] {
  const most = [...ledgers].sort((a, b) => b.missing - a.missing || b.received - a.received).slice(0, MAX_PROJECTS)
  const readings = most.flatMap((ledger) =>
    STATES.map((state): LabeledValue<number> => [{ project: ledger.project, state }, ledger[state]]),
  )
  return [
    gauge(
      'tallyhouse_ledger_missing_events',
      'Events of all projects that were received, and are neither stored, refused, deleted nor waiting.',
      ledgers.reduce((sum, { missing }) => sum + missing, 0),
    ),
    gauge(
      'tallyhouse_ledger_events',
      'The outcomes of received events, counted every ten minutes. Missing: lost. Unexplained: found, but not received.',
      readings,
    ),
  ]
}
