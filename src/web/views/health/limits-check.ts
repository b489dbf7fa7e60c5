import type { LimitName } from '../../../contract/errors.js'
import { bytesText, durationText, numberText, shareText } from '../../lib/format.js'
import { type Sample, sumOf } from './prometheus.js'
import { type Check, latelyText, risen, type Times } from './snapshots.js'

const REFUSALS = 'tallyhouse_limit_refusals_total'
const WINDOW = 'tallyhouse_insert_id_window_seconds'
const IN_JOURNAL = 'tallyhouse_journal_project_bytes'

/** The ids of events are remembered for at least as long, unless a project has too many. */
const WINDOW_S = 7 * 24 * 3600
/** The share of the journal from which on a project is named. */
const JOURNAL_SHARE = 0.25

/** What each limit is about, and what to do when it is met, by the label `limit`; settings.md has the settings. */
export const LIMITS: Readonly<Record<LimitName, [about: string, advice: string]>> = {
  requests: ['requests in a window', 'Raise RATE_LIMIT or ADDRESS_LIMIT if they are wanted.'],
  wrong_keys: ['requests with unknown keys', 'Correct the key of the client, or raise WRONG_KEY_LIMIT.'],
  work: ['bytes of profiles and bodies that a page’s key causes', 'Use a secret key on a server for work like that.'],
  new_users: ['new users by a page’s key', 'Use a secret key on a server to import users.'],
  live_streams: ['open live streams', 'Raise MAX_PROJECT_LIVE_STREAMS or MAX_LIVE_STREAMS, or close some.'],
  body_memory: ['large bodies at once', 'Let clients send smaller bodies, or raise BODY_MEMORY.'],
  reads: ['reads at once', 'Let clients read less at a time; retries help.'],
  questions: ['questions at once', 'Let clients ask one question after another; retries help.'],
  journal: ['the project’s share of the journal', 'See the backlog: what is stored makes room.'],
  idempotency_keys: ['remembered Idempotency-Keys', 'Send without keys, or raise MAX_IDEMPOTENCY_KEYS.'],
  saved: ['saved questions and boards', 'Delete some that nobody needs.'],
}

const OF_KEY = 'If nobody knows why a key would do that, revoke it: it may have been copied out of a page.'

/** Who was refused lately by a limit, or takes so much that something is shortened for it. */
export function limits(times: Times): Check {
  const { now } = times
  const met = refusals(times)
  const short = windows(now.samples)
  const large = shares(now.samples)
  const who = met.map(({ labels, value }) => `${whoText(labels)} ${timesText(value)} (${aboutOf(labels)})`)
  const found = [
    ...(who.length > 0 ? [`Refused ${latelyText(times)}: ${who.join('; ')}.`] : []),
    ...short.map(({ labels, value }) => {
      return `Of ${whoText(labels)}, repeated events are known for ${durationText(1000 * value)} only.`
    }),
    ...large.map(({ labels, value }) => `${shareText(value)} of the journal is of ${whoText(labels)}.`),
  ]
  const advice = [
    ...met.map(({ labels }) => limitOf(labels)?.[1]),
    short.length > 0 && 'Send fewer different insert_ids, or raise MAX_INSERT_IDS.',
    large.length > 0 && LIMITS.journal[1],
    OF_KEY,
  ].filter((text) => typeof text === 'string')
  const isCalm = found.length === 0
  return {
    title: 'Limits',
    level: isCalm ? 'good' : 'watch',
    verdict: isCalm ? `No limit was met ${latelyText(times)}.` : found.join(' '),
    advice: isCalm ? null : [...new Set(advice)].join(' '),
    facts: [
      ['Refused since the start', numberText(sumOf(now.samples, REFUSALS))],
      ...met.map(({ labels, value }) => fact(`${labels.limit}, ${whoText(labels)}`, numberText(value))),
      ...journals(now.samples).map(({ labels, value }) => fact(`Journal, ${whoText(labels)}`, bytesText(value))),
    ],
    about: 'Each project and kind of key has a share of what all use; whoever takes more is refused, and nobody else.',
  }
}

function fact(name: string, value: string): [string, string] {
  return [name, value]
}

/** Of all processes together, the most frequent first. */
function refusals({ now, first }: Times): Sample[] {
  if (!first) return []
  const sums = new Map<string, Sample>()
  for (const { name, labels } of now.samples) {
    if (name !== REFUSALS) continue
    const { limit = '', project = '', kind = '' } = labels
    const of = { limit, project, kind }
    const value = risen(now, first, name, of)
    if (value > 0) sums.set(JSON.stringify(of), { name, labels: of, value })
  }
  return [...sums.values()].sort((a, b) => b.value - a.value)
}

/** What is shorter than promised, the shortest of all lanes and processes for each. */
function windows(samples: readonly Sample[]): Sample[] {
  const least = new Map<string, Sample>()
  for (const sample of samples) {
    if (sample.name !== WINDOW || sample.value >= WINDOW_S) continue
    const key = whoText(sample.labels)
    if (sample.value < (least.get(key)?.value ?? Number.POSITIVE_INFINITY)) least.set(key, sample)
  }
  return [...least.values()]
}

/** What waits of each project that takes much: all processes see the same journals, so the most that one sees. */
function journals(samples: readonly Sample[]): Sample[] {
  const most = new Map<string, Sample>()
  for (const sample of samples) {
    if (sample.name !== IN_JOURNAL) continue
    const key = `${whoText(sample.labels)} ${sample.labels.lane ?? ''}`
    if (sample.value >= (most.get(key)?.value ?? 0)) most.set(key, sample)
  }
  return [...most.values()]
}

/** The shares of their journals, of the projects that are worth a look. */
function shares(samples: readonly Sample[]): Sample[] {
  return journals(samples).flatMap((sample) => {
    const { lane } = sample.labels
    const limit = samples.find(({ name, labels }) => {
      return name === 'tallyhouse_journal_limit_bytes' && labels.lane === lane
    })
    const share = limit && limit.value > 0 ? sample.value / limit.value : 0
    return share >= JOURNAL_SHARE ? [{ ...sample, value: share }] : []
  })
}

function whoText({ project = '', kind = '' }: Sample['labels']): string {
  if (project === '') return 'a client without a known key'
  return kind === '' ? `project ${project}` : `project ${project} with a ${kind} key`
}

/** Undefined for a limit of another version of the service. */
function limitOf({ limit = '' }: Sample['labels']): (typeof LIMITS)[LimitName] | undefined {
  return Object.hasOwn(LIMITS, limit) ? LIMITS[limit as LimitName] : undefined
}

function aboutOf(labels: Sample['labels']): string {
  return limitOf(labels)?.[0] ?? labels.limit ?? ''
}

function timesText(count: number): string {
  return count === 1 ? 'once' : `${numberText(count)} times`
}
