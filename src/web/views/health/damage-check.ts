import { formatNumber } from '../../lib/format.js'
import { findMax, listLabelValues, type Sample, sumMaxima } from './prometheus.js'
import type { Check, Snapshot } from './snapshots.js'

/** Labels of tables. */
const LOST: Record<string, string> = { events: 'Events', dead_letters: 'Dead letters', api_keys: 'API keys' }

/** The states of an event in the ledger. */
const STATES = ['stored', 'repeated', 'refused', 'deleted', 'waiting', 'missing']
/** Maximum number of projects shown. */
const MAX_PROJECTS = 20

/** Checks for lost or damaged data. Every process reports the same parts, but possibly at another time. */
export function checkDamage({ samples }: Snapshot): Check {
  const parts = (state: string) => {
    return sumMaxima(
      samples.filter(({ labels }) => labels.state === state),
      'tallyhouse_store_lost_parts',
      'shard',
    )
  }
  const [aside, missing, unreadable] = [parts('detached'), parts('missing'), parts('unreadable')]
  const places = new Map<string, number>()
  for (const { name, labels, value } of samples) {
    if (name !== 'tallyhouse_store_lost_rows') continue
    const { table = '', month = '', project = '', shard = '' } = labels
    const what = `${LOST[table] ?? table}${month && ` of ${month}`}${project && `, project ${project}`}`
    const place = shard ? `${what}, shard ${shard}` : what
    places.set(place, Math.max(places.get(place) ?? 0, value))
  }
  const count = aside + missing + unreadable
  const projects = readLedgers(samples)
  const check = {
    title: 'Completeness',
    about:
      'ClickHouse continues without parts that are damaged or gone, so the service keeps a list of them. Run “tallyhouse verify” to check every file. Received events are added up every ten minutes.',
    facts: [
      ['Lost or damaged parts', formatNumber(count)],
      ...[...places].map(([place, rows]): [string, string] => [place, formatNumber(rows)]),
      ...projects.map(({ project, text }): [string, string] => [`Events of ${project}`, text]),
    ] satisfies Check['facts'],
  }
  const advice =
    'Restore them from a backup or a replica: see “Lost and damaged data” in docs/damage.md. The log and “tallyhouse verify” list each part and what it contained.'
  const lacking = projects.filter(({ missing }) => missing > 0)
  if (count === 0 && lacking.length > 0) {
    const names = lacking.map(({ project, missing }) => `${formatNumber(missing)} of ${project}`).join(', ')
    return { ...check, level: 'bad', verdict: `Some events that were received are missing: ${names}.`, advice }
  }
  if (count === 0) return { ...check, level: 'good', verdict: 'No data is missing.', advice: null }
  const states = [
    aside > 0 && `${formatNumber(aside)} detached by ClickHouse`,
    missing > 0 && `${formatNumber(missing)} missing`,
    unreadable > 0 && `${formatNumber(unreadable)} unreadable`,
  ].filter((text) => text !== false)
  return {
    ...check,
    level: 'bad',
    verdict: `The store has lost or damaged parts: ${states.join(', ')}. Reports only include the rest.`,
    advice,
  }
}

/** The ledger of each project, those with missing events first; empty before the first count. */
function readLedgers(samples: readonly Sample[]): { project: string; missing: number; text: string }[] {
  const counts = (project: string, state: string) => {
    const own = samples.filter(({ labels }) => labels.project === project && labels.state === state)
    return findMax(own, 'tallyhouse_ledger_events') ?? 0
  }
  const ledgers = listLabelValues(samples, 'tallyhouse_ledger_events', 'project').map((project) => {
    const parts = STATES.map((state) => ({ state, count: counts(project, state) }))
    const extra = counts(project, 'unexplained')
    const missing = counts(project, 'missing')
    const received = parts.reduce((sum, { count }) => sum + count, 0) - extra
    const shown = parts.filter(({ state, count }) => count > 0 || state === 'stored')
    const sum = shown.map(({ state, count }) => `${formatNumber(count)} ${state}`).join(' + ')
    const rest = extra > 0 ? ` − ${formatNumber(extra)} not received` : ''
    return { project, missing, received, text: `${formatNumber(received)} received = ${sum}${rest}` }
  })
  return ledgers.sort((a, b) => b.missing - a.missing || b.received - a.received).slice(0, MAX_PROJECTS)
}
