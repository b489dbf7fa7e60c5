import type { LimitName } from '../../../contract/errors.js'
import { formatBytes, formatCount, formatDuration, formatNumber, formatShare } from '../../lib/format.js'
import { type Sample, sumSamples } from './prometheus.js'
import { type Check, computeIncrease, describeRecent, type History } from './snapshots.js'

const REFUSALS = 'tallyhouse_limit_refusals_total'
const WINDOW = 'tallyhouse_insert_id_window_seconds'
const QUOTA = 'tallyhouse_quota'
const IN_JOURNAL = 'tallyhouse_journal_project_bytes'

/** insert_ids are remembered for at least this time, unless a project has too many. */
const WINDOW_S = 7 * 24 * 3600
/** Projects with at least this share of the journal are named. */
const JOURNAL_SHARE = 0.25
/** Quotas are named if at least this share of them is used. */
const QUOTA_SHARE = 0.8

/** The description and advice for each limit, by the label `limit`; settings.md documents the settings. */
export const LIMITS: Readonly<Record<LimitName, [about: string, advice: string]>> = {
  requests: ['too many requests', 'If these requests are wanted, raise RATE_LIMIT or ADDRESS_LIMIT.'],
  wrong_keys: ['unknown keys', 'Correct the client’s key, or raise WRONG_KEY_LIMIT.'],
  work: ['too much work for a key used in web pages', 'Do this from a server, with a secret key.'],
  new_users: ['too many new users for a key used in web pages', 'Import users from a server, with a secret key.'],
  live_streams: ['too many live streams', 'Close some, or raise MAX_PROJECT_LIVE_STREAMS or MAX_LIVE_STREAMS.'],
  body_memory: ['too many large requests at a time', 'Have clients send smaller requests, or raise BODY_MEMORY.'],
  reads: ['too many reads at a time', 'Have clients read less in parallel, and retry.'],
  questions: ['too many questions at a time', 'Have clients ask one question after another, and retry.'],
  journal: ['the project’s share of the journal', 'See Backlog: events that get stored free up space.'],
  idempotency_keys: ['too many Idempotency-Keys', 'Send fewer of them, or raise MAX_IDEMPOTENCY_KEYS.'],
  saved: ['too many saved questions and boards', 'Delete the ones you no longer need.'],
  quota: [
    'the project’s quota',
    'Raise the quota in the project’s settings, wait until its day or month ends, or remove data.',
  ],
}

const OF_KEY = 'If you cannot explain this, revoke the key: it may have been copied from a web page.'

/** Reports clients that hit a limit recently, quotas that are nearly used, and projects with a large share of the journal. */
export function checkLimits(history: History): Check {
  const { now } = history
  const met = findRefusals(history)
  const short = findShortWindows(now.samples)
  const large = findLargeShares(now.samples)
  const quotas = findUsedQuotas(now.samples)
  const who = met.map(
    ({ labels, value }) => `${describeClient(labels)} ${formatTimes(value)} (${describeLimit(labels)})`,
  )
  const findings = [
    ...(who.length > 0 ? [`Refused ${describeRecent(history)}: ${who.join('; ')}.`] : []),
    ...quotas.map(({ labels: { project, quota = '', mode }, value }) => {
      const effect = mode === 'hard' && value >= 1 ? ': more events are refused' : ''
      return `Project ${project} has used ${formatShare(value)} of its quota of ${quota.replaceAll('_', ' ')}${effect}.`
    }),
    ...short.map(({ labels, value }) => {
      return `Repeated events of ${describeClient(labels)} are only recognized for ${formatDuration(1000 * value)}.`
    }),
    ...large.map(({ labels, value }) => `${formatShare(value)} of the journal belongs to ${describeClient(labels)}.`),
  ]
  const advice = [
    ...met.map(({ labels }) => findLimit(labels)?.[1]),
    quotas.length > 0 && LIMITS.quota[1],
    short.length > 0 && 'Send fewer different insert_ids, or raise MAX_INSERT_IDS.',
    large.length > 0 && LIMITS.journal[1],
    met.length + short.length + large.length > 0 && OF_KEY,
  ].filter((text) => typeof text === 'string')
  const isCalm = findings.length === 0
  return {
    title: 'Limits',
    level: isCalm ? 'good' : 'watch',
    verdict: isCalm ? `No limits were reached ${describeRecent(history)}.` : findings.join(' '),
    advice: isCalm ? null : [...new Set(advice)].join(' '),
    facts: [
      ['Refused since it started', formatNumber(sumSamples(now.samples, REFUSALS))],
      ...met.map(({ labels, value }) => toFact(`${labels.limit}, ${describeClient(labels)}`, formatNumber(value))),
      ...findJournalShares(now.samples).map(({ labels, value }) =>
        toFact(`Journal${labels.lane ? ` ${labels.lane}` : ''}, ${describeClient(labels)}`, formatBytes(value)),
      ),
    ],
    about: 'Projects and kinds of keys share what the service has. Only those that exceed their share are refused.',
  }
}

function toFact(name: string, value: string): [string, string] {
  return [name, value]
}

/** Refusals summed over all processes, the most frequent first. */
function findRefusals({ now, first }: History): Sample[] {
  const sums = new Map<string, Sample>()
  for (const { name, labels } of now.samples) {
    if (name !== REFUSALS) continue
    const { limit = '', project = '', kind = '' } = labels
    const of = { limit, project, kind }
    const value = computeIncrease(now, first, name, of)
    if (value > 0) sums.set(JSON.stringify(of), { name, labels: of, value })
  }
  return [...sums.values()].sort((a, b) => b.value - a.value)
}

/** Deduplication windows that are shorter than promised; the shortest over lanes and processes. */
function findShortWindows(samples: readonly Sample[]): Sample[] {
  const minima = new Map<string, Sample>()
  for (const sample of samples) {
    if (sample.name !== WINDOW || sample.value >= WINDOW_S) continue
    const key = describeClient(sample.labels)
    if (sample.value < (minima.get(key)?.value ?? Number.POSITIVE_INFINITY)) minima.set(key, sample)
  }
  return [...minima.values()]
}

/** Journal bytes by project. All processes see the same journals, so the maximum counts. */
function findJournalShares(samples: readonly Sample[]): Sample[] {
  const maxima = new Map<string, Sample>()
  for (const sample of samples) {
    if (sample.name !== IN_JOURNAL) continue
    const key = `${describeClient(sample.labels)} ${sample.labels.lane ?? ''}`
    if (sample.value >= (maxima.get(key)?.value ?? 0)) maxima.set(key, sample)
  }
  return [...maxima.values()]
}

/** Projects with a large share of their journal. */
function findLargeShares(samples: readonly Sample[]): Sample[] {
  return findJournalShares(samples).flatMap((sample) => {
    const { lane } = sample.labels
    const limit = samples.find(({ name, labels }) => {
      return name === 'tallyhouse_journal_limit_bytes' && labels.lane === lane
    })
    const share = limit && limit.value > 0 ? sample.value / limit.value : 0
    return share >= JOURNAL_SHARE ? [{ ...sample, value: share }] : []
  })
}

/** Quotas that are nearly used, the fullest first. Processes check at different times, so the maximum counts. */
function findUsedQuotas(samples: readonly Sample[]): Sample[] {
  const limits = new Map<string, number>()
  const maxima = new Map<string, Sample>()
  const toKey = ({ project, quota }: Sample['labels']) => `${quota} ${project}`
  for (const { name, labels, value } of samples) if (name === `${QUOTA}_limit`) limits.set(toKey(labels), value)
  for (const { name, labels, value: used } of samples) {
    if (name !== `${QUOTA}_used`) continue
    const key = toKey(labels)
    const value = used / (limits.get(key) ?? Number.POSITIVE_INFINITY)
    if (value >= QUOTA_SHARE && value > (maxima.get(key)?.value ?? 0)) maxima.set(key, { name, labels, value })
  }
  return [...maxima.values()].sort((a, b) => b.value - a.value)
}

function describeClient({ project = '', kind = '' }: Sample['labels']): string {
  if (project === '') return 'a client without a known key'
  if (kind === '') return `project ${project}`
  // Some limits are shared by a class of keys, so no single kind of key has reached them.
  return `project ${project} with ${kind === 'page' ? 'its public and write keys' : `a ${kind} key`}`
}

/** Undefined for a limit unknown to this version of the page. */
function findLimit({ limit = '' }: Sample['labels']): (typeof LIMITS)[LimitName] | undefined {
  return Object.hasOwn(LIMITS, limit) ? LIMITS[limit as LimitName] : undefined
}

function describeLimit(labels: Sample['labels']): string {
  return findLimit(labels)?.[0] ?? labels.limit ?? ''
}

function formatTimes(count: number): string {
  return count === 1 ? 'once' : formatCount(count, 'time')
}
