import { formatAgo, formatBytes, formatDuration, formatNumber, formatShare } from '../../lib/format.js'
import { checkDamage } from './damage-check.js'
import { checkLimits } from './limits-check.js'
import { findMax, findMin, listLabelValues, type Sample, sumMaxima, sumSamples } from './prometheus.js'
import {
  type Check,
  computeIncrease,
  describeRecent,
  findIncreasedLabels,
  type History,
  isSameRun,
  type Level,
  type Snapshot,
} from './snapshots.js'

/** Thresholds of docs/monitoring/alerts.yml, with an earlier warning level. */
const WAITING_S = { watch: 10, bad: 60 }
const FREE_SHARE = { watch: 0.2, bad: 0.1 }
const FULL_SHARE = 0.5
const LAG_S = 1

/** Why storing a block was retried, by the label `reason`. */
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

/** Why events were refused, by the label `code`; `share` stands for those over the limit of their project only. */
const REFUSALS: Record<string, string> = {
  overloaded: 'the journal is full',
  share: 'a project has filled its share of the journal',
  unavailable: 'the journal does not answer',
  internal: 'of a fault in the service',
}

/** @param snapshots of the last `RECENT_MS`, in order of time; the last one is the current state */
export function runChecks(snapshots: readonly Snapshot[]): Check[] {
  const now = snapshots.at(-1)
  if (!now) return []
  const same = snapshots.slice(0, -1).filter((before) => isSameRun(now, before))
  const history = { now, last: same.at(-1) ?? null, first: same[0] ?? null }
  const parts = [
    checkReadiness(now),
    checkIntake(history),
    checkBacklog(now),
    checkStore(history),
    checkDamage(now),
    checkDisk(now),
    checkDeadLetters(history),
  ]
  return [...parts, checkNames(history), checkLimits(history), checkLoad(now)]
}

/** The worst level of all checks, and a summary. */
export function summarize(checks: readonly Check[]): { level: Level; verdict: string } {
  const bad = checks.filter(({ level }) => level === 'bad')
  if (bad.length > 0) return { level: 'bad', verdict: `Act now: ${joinTitles(bad)}.` }
  const watched = checks.filter(({ level }) => level === 'watch')
  if (watched.length > 0) return { level: 'watch', verdict: `Take a look: ${joinTitles(watched)}.` }
  return { level: 'good', verdict: 'All is well.' }
}

function checkReadiness({ at, samples, notReady }: Snapshot): Check {
  const startedAt = 1000 * (findMin(samples, 'process_start_time_seconds') ?? at / 1000)
  const version = listLabelValues(samples, 'tallyhouse_info', 'version').join(', ')
  const processes = listLabelValues(samples, 'tallyhouse_info', 'process').length
  return {
    title: 'Service',
    level: notReady === null ? 'good' : 'bad',
    verdict: notReady ?? 'The service is ready: its journal and its store answer.',
    advice:
      notReady &&
      'Start the part that it names, and check that the service can reach it. The log of the service says more. Clients that retry lose nothing.',
    facts: [
      ['Up for', formatDuration(Math.max(0, at - startedAt))],
      ['Version', version],
      ...(processes > 1 ? ([['Processes', formatNumber(processes)]] satisfies Check['facts']) : []),
    ],
    about: 'The service takes events into its journal, and moves them from there to its store, ClickHouse.',
  }
}

function checkIntake(history: History): Check {
  const { now, last: before, first } = history
  const { samples } = now
  const accepted = sumSamples(samples, 'tallyhouse_events_accepted_total')
  const rate =
    before && (1000 * computeIncrease(now, before, 'tallyhouse_events_accepted_total')) / (now.at - before.at)
  const refused = sumSamples(samples, REFUSED)
  const check = {
    title: 'Intake',
    facts: [
      ['Events per second', rate === null ? '…' : formatNumber(rate)],
      ['Accepted since the start', formatNumber(accepted)],
      ['Refused since the start', formatNumber(refused)],
    ] satisfies Check['facts'],
    about:
      'An event is accepted once it is on disk in the journal. What is refused has to be sent again by the client.',
  }
  if (findMin(samples, 'tallyhouse_journal_up') === 0) {
    const advice = 'Start the journal (Redis, or the folder DATA_DIR), or free memory and disk for it.'
    return { ...check, level: 'bad', verdict: 'The journal does not answer, so events are refused.', advice }
  }
  const reasons = before ? findRefusalReasons(now, before) : []
  if (reasons.length > 0) {
    const verdict = `Events are being refused, as ${joinReasons(reasons, REFUSALS)}.`
    const who = reasons.includes('share') ? ' Limits names the project; other projects have room.' : ''
    const advice = `See the backlog and the store: they say what holds events up.${reasons.length === 1 ? who : ''}`
    return { ...check, level: 'bad', verdict, advice }
  }
  const lately = first ? computeIncrease(now, first, REFUSED) : 0
  if (lately > 0) {
    const why = first ? findRefusalReasons(now, first) : []
    const verdict = `Events are accepted again. ${formatNumber(lately)} were refused ${describeRecent(history)}, as ${joinReasons(why, REFUSALS)}.`
    return { ...check, level: 'watch', verdict, advice: 'Nothing, if clients retry: those that do lost nothing.' }
  }
  return { ...check, level: 'good', verdict: describeIntake(rate), advice: null }
}

/** Why events were refused since an earlier snapshot, as keys of `REFUSALS`. */
function findRefusalReasons(now: Snapshot, before: Snapshot): string[] {
  const codes = findIncreasedLabels(now, before, REFUSED, 'code')
  const overShare = computeIncrease(now, before, 'tallyhouse_events_over_share_total')
  if (overShare === 0) return codes
  const isFull = computeIncrease(now, before, REFUSED, { code: 'overloaded' }) > overShare
  return [...codes.filter((code) => code !== 'overloaded' || isFull), 'share']
}

function describeIntake(rate: number | null): string {
  if (rate === null) return 'Events are accepted.'
  if (rate === 0) return 'Events are accepted; none came in the last seconds.'
  return `${formatNumber(rate)} events per second come in, and all are accepted.`
}

function checkBacklog({ samples }: Snapshot): Check {
  const entries = sumMaxima(samples, 'tallyhouse_journal_entries', 'lane')
  const oldest = findMax(samples, 'tallyhouse_journal_oldest_seconds') ?? 0
  const bytes = sumMaxima(samples, 'tallyhouse_journal_bytes', 'lane')
  const used = bytes + sumMaxima(samples, 'tallyhouse_journal_state_bytes', 'lane')
  const limit = sumMaxima(samples, 'tallyhouse_journal_limit_bytes', 'lane')
  const share = limit > 0 ? used / limit : 0
  const check = {
    title: 'Backlog',
    facts: [
      ['Waiting', formatNumber(entries)],
      ['Oldest', entries > 0 ? formatDuration(1000 * oldest) : '–'],
      ['Journal in use', `${formatBytes(used)}, ${formatShare(share)}`],
    ] satisfies Check['facts'],
    about:
      'What was accepted waits in the journal until it is stored. An entry is an event, or several that came together.',
  }
  const waiting = `${formatNumber(entries)} entries wait to be stored; the oldest for ${formatDuration(1000 * oldest)}.`
  const advice = 'See the store: once it answers and has room, the backlog goes by itself. Nothing of it is lost.'
  if (share > FULL_SHARE) {
    const verdict = `${waiting} The journal is more than half full; once it is full, events are refused.`
    return { ...check, level: 'bad', verdict, advice: `${advice} Raise JOURNAL_MAX_BYTES to gain time.` }
  }
  if (findMin(samples, 'tallyhouse_journal_up') === 0) {
    return { ...check, level: 'bad', verdict: 'The journal does not say what waits in it.', advice: 'See the intake.' }
  }
  if (entries === 0) {
    return { ...check, level: 'good', verdict: 'Everything that was accepted is stored.', advice: null }
  }
  if (oldest < WAITING_S.watch) return { ...check, level: 'good', verdict: waiting, advice: null }
  return { ...check, level: oldest > WAITING_S.bad ? 'bad' : 'watch', verdict: waiting, advice }
}

function checkStore(history: History): Check {
  const { now, first } = history
  const { samples } = now
  const retries = sumSamples(samples, 'tallyhouse_block_retries_total')
  const check = {
    title: 'Store',
    facts: [
      [
        'Events stored since the start',
        formatNumber(sumSamples(samples, 'tallyhouse_rows_stored_total', { table: 'events' })),
      ],
      ['Failed attempts since the start', formatNumber(retries)],
      ...findLastStored(now),
    ] satisfies Check['facts'],
    about:
      'ClickHouse keeps all events, profiles and sessions. An attempt that fails is made again; nothing is stored twice.',
  }
  const down = listLabelValues(
    samples.filter(({ value }) => value === 0),
    'tallyhouse_store_up',
    'shard',
  )
  if (findMin(samples, 'tallyhouse_store_up') === 0) {
    const which = down.length > 0 ? `Shard ${down.join(', ')} of ClickHouse` : 'ClickHouse'
    const verdict = `${which} does not answer. Events are accepted and wait; questions about them fail.`
    const advice =
      'Start ClickHouse, and check its address and its password. The embedded one is started again by the service, whose log says why it ended.'
    return { ...check, level: 'bad', verdict, advice }
  }
  const reasons = first ? findIncreasedLabels(now, first, 'tallyhouse_block_retries_total', 'reason') : []
  if (first && reasons.length > 0) {
    const failed = formatNumber(computeIncrease(now, first, 'tallyhouse_block_retries_total'))
    const verdict = `Storing failed ${failed} times ${describeRecent(history)}, as ${joinReasons(reasons, RETRY_REASONS)}, and was tried again.`
    return { ...check, level: 'watch', verdict, advice: 'If this lasts, look at ClickHouse: memory, disk, its log.' }
  }
  if (findMin(samples, 'tallyhouse_store_priorities') === 0) {
    const verdict =
      'ClickHouse answers and stores what comes, but cannot hold questions back: while they run, events wait.'
    const advice = 'Grant the service CAP_SYS_NICE, as systemd does with AmbientCapabilities=CAP_SYS_NICE.'
    return { ...check, level: 'watch', verdict, advice }
  }
  return { ...check, level: 'good', verdict: 'ClickHouse answers and stores what comes.', advice: null }
}

function findLastStored({ at, samples }: Snapshot): Check['facts'] {
  const seconds = findMax(samples, 'tallyhouse_last_stored_timestamp_seconds')
  return seconds ? [['Last stored', formatAgo(1000 * seconds, at)]] : []
}

function checkDisk({ samples }: Snapshot): Check {
  const disks = [
    ...(findMin(samples, 'tallyhouse_data_dir_free_bytes') === null
      ? []
      : [measureDisk(samples, 'data_dir', {}, 'DATA_DIR')]),
    ...listLabelValues(samples, 'tallyhouse_store_disk_free_bytes', 'disk').map((disk) => {
      return measureDisk(samples, 'store_disk', { disk }, `ClickHouse, ${disk}`)
    }),
  ]
  const least = Math.min(1, ...disks.map(({ share }) => share))
  const level = least < FREE_SHARE.bad ? 'bad' : least < FREE_SHARE.watch ? 'watch' : 'good'
  return {
    title: 'Disk',
    level: disks.length > 0 ? level : 'watch',
    verdict: disks.length > 0 ? `${formatShare(least)} of the disk is free.` : 'It is not known how much disk is free.',
    advice: level === 'good' ? null : 'Free space or enlarge the disk: a full one stores nothing and refuses events.',
    facts: disks.map(({ name, free, size }) => [name, `${formatBytes(free)} of ${formatBytes(size)} free`]),
    about: 'ClickHouse needs room to merge what it stores, and the embedded journal needs room for what waits.',
  }
}

function measureDisk(samples: readonly Sample[], metric: string, labels: Record<string, string>, name: string) {
  const free = findMin(samples, `tallyhouse_${metric}_free_bytes`, labels) ?? 0
  const size = findMin(samples, `tallyhouse_${metric}_size_bytes`, labels) ?? 0
  return { name, free, size, share: size > 0 ? free / size : 0 }
}

function checkDeadLetters(history: History): Check {
  const { now, first } = history
  const count = sumSamples(now.samples, 'tallyhouse_dead_letters_total')
  const lately = first ? computeIncrease(now, first, 'tallyhouse_dead_letters_total') : 0
  return {
    title: 'Dead letters',
    level: lately > 0 ? 'watch' : 'good',
    verdict:
      lately > 0
        ? `${formatNumber(lately)} could not be stored ${describeRecent(history)}, and were set aside.`
        : `None ${describeRecent(history)}.`,
    advice: lately > 0 ? 'Read why, and replay them once the cause is gone.' : null,
    facts: [['Set aside since the start', formatNumber(count)]],
    about: 'What ClickHouse cannot read in any form is kept unchanged, with the reason. Nothing else waits for it.',
    link: { text: 'Show the dead letters', to: ['data', 'dead-letters'] },
  }
}

function checkNames(history: History): Check {
  const { now, first } = history
  const count = (name: string) => sumSamples(now.samples, `tallyhouse_${name}_total`)
  const lately = (name: string) => (first ? computeIncrease(now, first, `tallyhouse_${name}_total`) : 0)
  const [nobody, refused] = [lately('placeholder_names'), lately('alias_conflicts')]
  const messages = `${formatNumber(nobody)} ${nobody === 1 ? 'message' : 'messages'}`
  const links = `${formatNumber(refused)} ${refused === 1 ? 'link was' : 'links were'}`
  const findings = [
    ...(nobody > 0 ? [`${messages} named nobody (a placeholder such as undefined instead of a user id)`] : []),
    ...(refused > 0 ? [`${links} refused, as both names are known users`] : []),
  ]
  const when = describeRecent(history)
  return {
    title: 'Names of users',
    level: findings.length > 0 ? 'watch' : 'good',
    verdict:
      findings.length > 0
        ? `${when.charAt(0).toUpperCase()}${when.slice(1)}, ${findings.join(', and ')}.`
        : `No placeholders and no refused links ${when}.`,
    advice:
      findings.length > 0
        ? 'Look for a client that sends its user id before it has one, or the id of another user. Events keep the name that they came under.'
        : null,
    facts: [
      ['Messages that named nobody since the start', formatNumber(count('placeholder_names'))],
      ['Refused links since the start', formatNumber(count('alias_conflicts'))],
    ],
    about:
      'A link makes two names one user. Placeholders link nobody, and a link that a client inferred never joins two users who are both known.',
    link: { text: 'Show the dead letters', to: ['data', 'dead-letters'] },
  }
}

function checkLoad({ samples }: Snapshot): Check {
  const resident = sumSamples(samples, 'process_resident_memory_bytes')
  const lag = findMax(samples, 'nodejs_eventloop_lag_max_seconds') ?? 0
  const isSlow = lag > LAG_S
  return {
    title: 'Memory and load',
    level: isSlow ? 'watch' : 'good',
    verdict: isSlow
      ? `The service was busy: answers waited for up to ${formatDuration(1000 * lag)}.`
      : `The service uses ${formatBytes(resident)} of memory and answers without delay.`,
    advice: isSlow ? 'If this lasts, give the service more cores (WORKERS), or let clients send batches.' : null,
    facts: [
      ['Memory', formatBytes(resident)],
      ['JavaScript heap', formatBytes(sumSamples(samples, 'nodejs_heap_size_used_bytes'))],
      ['Longest delay', formatDuration(1000 * lag)],
      ['Live streams', formatNumber(sumSamples(samples, 'tallyhouse_live_streams'))],
    ],
    about: 'This is the process that answered; ClickHouse and Redis have memory of their own.',
  }
}

function joinReasons(reasons: string[], texts: Record<string, string>): string {
  return reasons.map((reason) => texts[reason] ?? reason).join(', and ')
}

function joinTitles(checks: readonly Check[]): string {
  return checks.map(({ title }) => title.toLowerCase()).join(', ')
}
