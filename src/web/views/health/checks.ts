import { agoText, bytesText, durationText, numberText, shareText } from '../../lib/format.js'
import { damage } from './damage-check.js'
import { limits } from './limits-check.js'
import { labelValues, maxOf, minOf, type Sample, sumOf, sumOfMost } from './prometheus.js'
import {
  type Check,
  isSameRun,
  type Level,
  latelyText,
  type Reading,
  risen,
  risenLabels,
  type Times,
} from './snapshots.js'

/** As docs/monitoring/alerts.yml has them, with a step before. */
const WAITING_S = { watch: 10, bad: 60 }
const FREE_SHARE = { watch: 0.2, bad: 0.1 }
const FULL_SHARE = 0.5
const LAG_S = 1

/** Why a block was not stored at once, by the label `reason`. */
const RETRY_REASONS: Record<string, string> = {
  unreachable: 'ClickHouse does not answer',
  too_many_parts: 'ClickHouse cannot keep up with merging',
  memory: 'ClickHouse has too little memory',
  disk: 'the disk of ClickHouse is full',
  store: 'ClickHouse answers with an error',
  journal: 'the journal does not answer',
  internal: 'of a fault in the service',
}

const REFUSED = 'tallyhouse_events_refused_total'

/** Why events were refused: by the label `code`, and `share` for those of the overloaded that only their project's share refused. */
const REFUSALS: Record<string, string> = {
  overloaded: 'the journal is full',
  share: 'a project has filled its share of the journal',
  unavailable: 'the journal does not answer',
  internal: 'of a fault in the service',
}

/** @param readings by time, of the last `LATELY_MS`; the last one is now */
export function checksOf(readings: readonly Reading[]): Check[] {
  const now = readings.at(-1)
  if (!now) return []
  const same = readings.slice(0, -1).filter((before) => isSameRun(now, before))
  const times = { now, last: same.at(-1) ?? null, first: same[0] ?? null }
  const parts = [readiness(now), intake(times), backlog(now), store(times), damage(now), disk(now), letters(times)]
  return [...parts, names(times), limits(times), load(now)]
}

/** The worst of all, and a sentence about the whole. */
export function overall(checks: readonly Check[]): { level: Level; verdict: string } {
  const bad = checks.filter(({ level }) => level === 'bad')
  if (bad.length > 0) return { level: 'bad', verdict: `Act now: ${titles(bad)}.` }
  const watched = checks.filter(({ level }) => level === 'watch')
  if (watched.length > 0) return { level: 'watch', verdict: `Take a look: ${titles(watched)}.` }
  return { level: 'good', verdict: 'All is well.' }
}

function readiness({ at, samples, notReady }: Reading): Check {
  const startedAt = 1000 * (minOf(samples, 'process_start_time_seconds') ?? at / 1000)
  const version = labelValues(samples, 'tallyhouse_info', 'version').join(', ')
  const processes = labelValues(samples, 'tallyhouse_info', 'process').length
  return {
    title: 'Service',
    level: notReady === null ? 'good' : 'bad',
    verdict: notReady ?? 'The service is ready: its journal and its store answer.',
    advice:
      notReady &&
      'Start the part that it names, and check that the service can reach it. The log of the service says more. Clients that retry lose nothing.',
    facts: [
      ['Up for', durationText(Math.max(0, at - startedAt))],
      ['Version', version],
      ...(processes > 1 ? ([['Processes', numberText(processes)]] satisfies Check['facts']) : []),
    ],
    about: 'The service takes events into its journal, and moves them from there to its store, ClickHouse.',
  }
}

function intake(times: Times): Check {
  const { now, last: before, first } = times
  const { samples } = now
  const accepted = sumOf(samples, 'tallyhouse_events_accepted_total')
  const rate = before && (1000 * risen(now, before, 'tallyhouse_events_accepted_total')) / (now.at - before.at)
  const refused = sumOf(samples, REFUSED)
  const check = {
    title: 'Intake',
    facts: [
      ['Events per second', rate === null ? '…' : numberText(rate)],
      ['Accepted since the start', numberText(accepted)],
      ['Refused since the start', numberText(refused)],
    ] satisfies Check['facts'],
    about:
      'An event is accepted once it is on disk in the journal. What is refused has to be sent again by the client.',
  }
  if (minOf(samples, 'tallyhouse_journal_up') === 0) {
    const advice = 'Start the journal (Redis, or the folder DATA_DIR), or free memory and disk for it.'
    return { ...check, level: 'bad', verdict: 'The journal does not answer, so events are refused.', advice }
  }
  const reasons = before ? refusalReasons(now, before) : []
  if (reasons.length > 0) {
    const verdict = `Events are being refused, as ${listOf(reasons, REFUSALS)}.`
    const who = reasons.includes('share') ? ' Limits names the project; other projects have room.' : ''
    const advice = `See the backlog and the store: they say what holds events up.${reasons.length === 1 ? who : ''}`
    return { ...check, level: 'bad', verdict, advice }
  }
  const lately = first ? risen(now, first, REFUSED) : 0
  if (lately > 0) {
    const why = first ? refusalReasons(now, first) : []
    const verdict = `Events are accepted again. ${numberText(lately)} were refused ${latelyText(times)}, as ${listOf(why, REFUSALS)}.`
    return { ...check, level: 'watch', verdict, advice: 'Nothing, if clients retry: those that do lost nothing.' }
  }
  return { ...check, level: 'good', verdict: intakeSentence(rate), advice: null }
}

/** Why events were refused since an earlier reading, as keys of `REFUSALS`. */
function refusalReasons(now: Reading, before: Reading): string[] {
  const codes = risenLabels(now, before, REFUSED, 'code')
  const overShare = risen(now, before, 'tallyhouse_events_over_share_total')
  if (overShare === 0) return codes
  const isFull = risen(now, before, REFUSED, { code: 'overloaded' }) > overShare
  return [...codes.filter((code) => code !== 'overloaded' || isFull), 'share']
}

function intakeSentence(rate: number | null): string {
  if (rate === null) return 'Events are accepted.'
  if (rate === 0) return 'Events are accepted; none came in the last seconds.'
  return `${numberText(rate)} events per second come in, and all are accepted.`
}

function backlog({ samples }: Reading): Check {
  const entries = sumOfMost(samples, 'tallyhouse_journal_entries', 'lane')
  const oldest = maxOf(samples, 'tallyhouse_journal_oldest_seconds') ?? 0
  const bytes = sumOfMost(samples, 'tallyhouse_journal_bytes', 'lane')
  const used = bytes + sumOfMost(samples, 'tallyhouse_journal_state_bytes', 'lane')
  const limit = sumOfMost(samples, 'tallyhouse_journal_limit_bytes', 'lane')
  const share = limit > 0 ? used / limit : 0
  const check = {
    title: 'Backlog',
    facts: [
      ['Waiting', numberText(entries)],
      ['Oldest', entries > 0 ? durationText(1000 * oldest) : '–'],
      ['Journal in use', `${bytesText(used)}, ${shareText(share)}`],
    ] satisfies Check['facts'],
    about:
      'What was accepted waits in the journal until it is stored. An entry is an event, or several that came together.',
  }
  const waiting = `${numberText(entries)} entries wait to be stored; the oldest for ${durationText(1000 * oldest)}.`
  const advice = 'See the store: once it answers and has room, the backlog goes by itself. Nothing of it is lost.'
  if (share > FULL_SHARE) {
    const verdict = `${waiting} The journal is more than half full; once it is full, events are refused.`
    return { ...check, level: 'bad', verdict, advice: `${advice} Raise JOURNAL_MAX_BYTES to gain time.` }
  }
  if (minOf(samples, 'tallyhouse_journal_up') === 0) {
    return { ...check, level: 'bad', verdict: 'The journal does not say what waits in it.', advice: 'See the intake.' }
  }
  if (entries === 0) {
    return { ...check, level: 'good', verdict: 'Everything that was accepted is stored.', advice: null }
  }
  if (oldest < WAITING_S.watch) return { ...check, level: 'good', verdict: waiting, advice: null }
  return { ...check, level: oldest > WAITING_S.bad ? 'bad' : 'watch', verdict: waiting, advice }
}

function store(times: Times): Check {
  const { now, first } = times
  const { samples } = now
  const retries = sumOf(samples, 'tallyhouse_block_retries_total')
  const check = {
    title: 'Store',
    facts: [
      [
        'Events stored since the start',
        numberText(sumOf(samples, 'tallyhouse_rows_stored_total', { table: 'events' })),
      ],
      ['Failed attempts since the start', numberText(retries)],
      ...lastStored(now),
    ] satisfies Check['facts'],
    about:
      'ClickHouse keeps all events, profiles and sessions. An attempt that fails is made again; nothing is stored twice.',
  }
  const down = labelValues(
    samples.filter(({ value }) => value === 0),
    'tallyhouse_store_up',
    'shard',
  )
  if (minOf(samples, 'tallyhouse_store_up') === 0) {
    const which = down.length > 0 ? `Shard ${down.join(', ')} of ClickHouse` : 'ClickHouse'
    const verdict = `${which} does not answer. Events are accepted and wait; questions about them fail.`
    const advice =
      'Start ClickHouse, and check its address and its password. The embedded one is started again by the service, whose log says why it ended.'
    return { ...check, level: 'bad', verdict, advice }
  }
  const reasons = first ? risenLabels(now, first, 'tallyhouse_block_retries_total', 'reason') : []
  if (first && reasons.length > 0) {
    const failed = numberText(risen(now, first, 'tallyhouse_block_retries_total'))
    const verdict = `Storing failed ${failed} times ${latelyText(times)}, as ${listOf(reasons, RETRY_REASONS)}, and was tried again.`
    return { ...check, level: 'watch', verdict, advice: 'If this lasts, look at ClickHouse: memory, disk, its log.' }
  }
  if (minOf(samples, 'tallyhouse_store_priorities') === 0) {
    const verdict =
      'ClickHouse answers and stores what comes, but cannot hold questions back: while they run, events wait.'
    const advice = 'Grant the service CAP_SYS_NICE, as systemd does with AmbientCapabilities=CAP_SYS_NICE.'
    return { ...check, level: 'watch', verdict, advice }
  }
  return { ...check, level: 'good', verdict: 'ClickHouse answers and stores what comes.', advice: null }
}

function lastStored({ at, samples }: Reading): Check['facts'] {
  const seconds = maxOf(samples, 'tallyhouse_last_stored_timestamp_seconds')
  return seconds ? [['Last stored', agoText(1000 * seconds, at)]] : []
}

function disk({ samples }: Reading): Check {
  const disks = [
    ...(minOf(samples, 'tallyhouse_data_dir_free_bytes') === null ? [] : [diskOf(samples, 'data_dir', {}, 'DATA_DIR')]),
    ...labelValues(samples, 'tallyhouse_store_disk_free_bytes', 'disk').map((disk) => {
      return diskOf(samples, 'store_disk', { disk }, `ClickHouse, ${disk}`)
    }),
  ]
  const least = Math.min(1, ...disks.map(({ share }) => share))
  const level = least < FREE_SHARE.bad ? 'bad' : least < FREE_SHARE.watch ? 'watch' : 'good'
  return {
    title: 'Disk',
    level: disks.length > 0 ? level : 'watch',
    verdict: disks.length > 0 ? `${shareText(least)} of the disk is free.` : 'It is not known how much disk is free.',
    advice: level === 'good' ? null : 'Free space or enlarge the disk: a full one stores nothing and refuses events.',
    facts: disks.map(({ name, free, size }) => [name, `${bytesText(free)} of ${bytesText(size)} free`]),
    about: 'ClickHouse needs room to merge what it stores, and the embedded journal needs room for what waits.',
  }
}

function diskOf(samples: readonly Sample[], metric: string, labels: Record<string, string>, name: string) {
  const free = minOf(samples, `tallyhouse_${metric}_free_bytes`, labels) ?? 0
  const size = minOf(samples, `tallyhouse_${metric}_size_bytes`, labels) ?? 0
  return { name, free, size, share: size > 0 ? free / size : 0 }
}

function letters(times: Times): Check {
  const { now, first } = times
  const count = sumOf(now.samples, 'tallyhouse_dead_letters_total')
  const lately = first ? risen(now, first, 'tallyhouse_dead_letters_total') : 0
  return {
    title: 'Dead letters',
    level: lately > 0 ? 'watch' : 'good',
    verdict:
      lately > 0
        ? `${numberText(lately)} could not be stored ${latelyText(times)}, and were set aside.`
        : `None ${latelyText(times)}.`,
    advice: lately > 0 ? 'Read why, and replay them once the cause is gone.' : null,
    facts: [['Set aside since the start', numberText(count)]],
    about: 'What ClickHouse cannot read in any form is kept unchanged, with the reason. Nothing else waits for it.',
    link: { text: 'Show the dead letters', to: ['data', 'dead-letters'] },
  }
}

function names(times: Times): Check {
  const { now, first } = times
  const count = (name: string) => sumOf(now.samples, `tallyhouse_${name}_total`)
  const lately = (name: string) => (first ? risen(now, first, `tallyhouse_${name}_total`) : 0)
  const [nobody, refused] = [lately('placeholder_names'), lately('alias_conflicts')]
  const messages = `${numberText(nobody)} ${nobody === 1 ? 'message' : 'messages'}`
  const links = `${numberText(refused)} ${refused === 1 ? 'link was' : 'links were'}`
  const found = [
    ...(nobody > 0 ? [`${messages} named nobody (a placeholder such as undefined instead of a user id)`] : []),
    ...(refused > 0 ? [`${links} refused, as both names are known users`] : []),
  ]
  const when = latelyText(times)
  return {
    title: 'Names of users',
    level: found.length > 0 ? 'watch' : 'good',
    verdict:
      found.length > 0
        ? `${when.charAt(0).toUpperCase()}${when.slice(1)}, ${found.join(', and ')}.`
        : `No placeholders and no refused links ${when}.`,
    advice:
      found.length > 0
        ? 'Look for a client that sends its user id before it has one, or the id of another user. Events keep the name that they came under.'
        : null,
    facts: [
      ['Messages that named nobody since the start', numberText(count('placeholder_names'))],
      ['Refused links since the start', numberText(count('alias_conflicts'))],
    ],
    about:
      'A link makes two names one user. Placeholders link nobody, and a link that a client inferred never joins two users who are both known.',
    link: { text: 'Show the dead letters', to: ['data', 'dead-letters'] },
  }
}

function load({ samples }: Reading): Check {
  const resident = sumOf(samples, 'process_resident_memory_bytes')
  const lag = maxOf(samples, 'nodejs_eventloop_lag_max_seconds') ?? 0
  const isSlow = lag > LAG_S
  return {
    title: 'Memory and load',
    level: isSlow ? 'watch' : 'good',
    verdict: isSlow
      ? `The service was busy: answers waited for up to ${durationText(1000 * lag)}.`
      : `The service uses ${bytesText(resident)} of memory and answers without delay.`,
    advice: isSlow ? 'If this lasts, give the service more cores (WORKERS), or let clients send batches.' : null,
    facts: [
      ['Memory', bytesText(resident)],
      ['JavaScript heap', bytesText(sumOf(samples, 'nodejs_heap_size_used_bytes'))],
      ['Longest delay', durationText(1000 * lag)],
      ['Live streams', numberText(sumOf(samples, 'tallyhouse_live_streams'))],
    ],
    about: 'This is the process that answered; ClickHouse and Redis have memory of their own.',
  }
}

function listOf(reasons: string[], texts: Record<string, string>): string {
  return reasons.map((reason) => texts[reason] ?? reason).join(', and ')
}

function titles(checks: readonly Check[]): string {
  return checks.map(({ title }) => title.toLowerCase()).join(', ')
}
