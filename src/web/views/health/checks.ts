import { formatAgo, formatBytes, formatCount, formatDuration, formatNumber, formatShare } from '../../lib/format.js'
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
  unreachable: 'ClickHouse did not respond',
  too_many_parts: 'ClickHouse could not keep up with merging',
  memory: 'ClickHouse ran out of memory',
  disk: 'the disk of ClickHouse was full',
  store: 'ClickHouse returned an error',
  journal: 'the journal did not respond',
  internal: 'the service has a bug',
}

const REFUSED = 'tallyhouse_events_refused_total'
const IGNORED = 'tallyhouse_events_with_ignored_fields_total'

/**
 * Why events were refused, by the label `code`; `share` means that only the project's own share of the journal was
 * full.
 */
const REFUSALS: Record<string, string> = {
  overloaded: 'the journal was full',
  share: 'a project had filled its share of the journal',
  unavailable: 'the journal did not respond',
  internal: 'the service has a bug',
}

/** @param snapshots recent ones in order of time; the last one is the current state */
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
  if (bad.length > 0) return { level: 'bad', verdict: `Act now on: ${joinTitles(bad)}.` }
  const watched = checks.filter(({ level }) => level === 'watch')
  if (watched.length > 0) return { level: 'watch', verdict: `Worth a look: ${joinTitles(watched)}.` }
  return { level: 'good', verdict: 'Everything is working.' }
}

function checkReadiness({ at, samples, notReady }: Snapshot): Check {
  const startedAt = 1000 * (findMin(samples, 'process_start_time_seconds') ?? at / 1000)
  const version = listLabelValues(samples, 'tallyhouse_info', 'version').join(', ')
  const processes = listLabelValues(samples, 'tallyhouse_info', 'process').length
  return {
    title: 'Service',
    level: notReady === null ? 'good' : 'bad',
    verdict: notReady ?? 'The service is ready, and so are its journal and its store.',
    advice:
      notReady &&
      'Start whatever is named here, and check that the service can reach it. The service’s log has details. Clients that retry lose nothing.',
    facts: [
      ['Up for', formatDuration(Math.max(0, at - startedAt))],
      ['Version', version],
      ...(processes > 1 ? ([['Processes', formatNumber(processes)]] satisfies Check['facts']) : []),
    ],
    about: 'The service writes events to its journal first, and then moves them to its store, ClickHouse.',
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
      ['Accepted since it started', formatNumber(accepted)],
      ['Refused since it started', formatNumber(refused)],
      ['With ignored fields since it started', formatNumber(sumSamples(samples, IGNORED))],
    ] satisfies Check['facts'],
    about: 'An event is accepted once the journal has it on disk. Clients must send refused events again.',
  }
  if (findMin(samples, 'tallyhouse_journal_up') === 0) {
    const advice =
      'Make sure that the journal (Redis, or the folder DATA_DIR) is up and has enough memory and disk space.'
    return { ...check, level: 'bad', verdict: 'The journal is not responding, so events are being refused.', advice }
  }
  const reasons = findRefusalReasons(now, before)
  if (reasons.length > 0) {
    const verdict = `Events are being refused because ${joinReasons(reasons, REFUSALS)}.`
    const who = reasons.includes('share') ? ' Limits, below, names the project; other projects are not affected.' : ''
    const advice = `Backlog and Store, below, show what is holding events up.${reasons.length === 1 ? who : ''}`
    return { ...check, level: 'bad', verdict, advice }
  }
  const lately = computeIncrease(now, first, REFUSED)
  if (lately > 0) {
    const why = findRefusalReasons(now, first)
    const verdict = `Events are being accepted again. ${formatCount(lately, 'event was', 'events were')} refused ${describeRecent(history)} because ${joinReasons(why, REFUSALS)}.`
    return {
      ...check,
      level: 'watch',
      verdict,
      advice: 'Nothing, if your clients retry. Events from clients that do not are lost.',
    }
  }
  const ignored = computeIncrease(now, first, IGNORED)
  if (ignored > 0) {
    const verdict = `${formatCount(ignored, 'accepted event')} ${describeRecent(history)} had fields that are ignored.`
    return {
      ...check,
      level: 'watch',
      verdict,
      advice:
        'The service’s log names the fields, and what was probably meant, such as properties for traits. Your own data belongs in properties.',
    }
  }
  return { ...check, level: 'good', verdict: describeIntake(rate), advice: null }
}

/** Why events were refused since an earlier snapshot, as keys of `REFUSALS`. */
function findRefusalReasons(now: Snapshot, before: Snapshot | null): string[] {
  const codes = findIncreasedLabels(now, before, REFUSED, 'code')
  const overShare = computeIncrease(now, before, 'tallyhouse_events_over_share_total')
  if (overShare === 0) return codes
  const isFull = computeIncrease(now, before, REFUSED, { code: 'overloaded' }) > overShare
  return [...codes.filter((code) => code !== 'overloaded' || isFull), 'share']
}

function describeIntake(rate: number | null): string {
  if (rate === null) return 'Events are being accepted.'
  if (rate === 0) return 'Ready for events. None arrived in the last few seconds.'
  return `Accepting all events, ${formatNumber(rate)} per second.`
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
      'Accepted events wait in the journal until they are stored. An entry is one event, or several that arrived together.',
  }
  const waiting = `${formatCount(entries, 'entry is', 'entries are')} waiting to be stored, the oldest for ${formatDuration(1000 * oldest)}.`
  const advice = 'Check Store, below: once it responds and has room, the backlog clears by itself. Nothing is lost.'
  if (share > FULL_SHARE) {
    const verdict = `${waiting} The journal is more than half full. Once it is full, events are refused.`
    return { ...check, level: 'bad', verdict, advice: `${advice} Raising JOURNAL_MAX_BYTES buys time.` }
  }
  if (findMin(samples, 'tallyhouse_journal_up') === 0) {
    return {
      ...check,
      level: 'bad',
      verdict: 'The journal is not responding, so the backlog is unknown.',
      advice: 'See Intake.',
    }
  }
  if (entries === 0) {
    return { ...check, level: 'good', verdict: 'All accepted events are stored.', advice: null }
  }
  if (oldest < WAITING_S.watch) return { ...check, level: 'good', verdict: waiting, advice: null }
  return { ...check, level: oldest > WAITING_S.bad ? 'bad' : 'watch', verdict: waiting, advice }
}

/** The progress of the facts that questions read; nothing if there are none. */
function describeCopies({ samples }: Snapshot): Check['facts'] {
  const name = 'tallyhouse_facts_waiting_events'
  if (findMax(samples, name) === null) return []
  const waiting = sumSamples(samples, name)
  const when = findMax(samples, 'tallyhouse_facts_short_of_disk') === 1 ? ' once the disk of ClickHouse has room' : ''
  const text =
    waiting === 0
      ? 'complete; projects with few events need none'
      : `${formatCount(waiting, 'event')} to copy${when}; questions are slower until then`
  return [['Facts for questions', text]]
}

function checkStore(history: History): Check {
  const { now, first } = history
  const { samples } = now
  const retries = sumSamples(samples, 'tallyhouse_block_retries_total')
  const check = {
    title: 'Store',
    facts: [
      [
        'Events stored since it started',
        formatNumber(sumSamples(samples, 'tallyhouse_rows_stored_total', { table: 'events' })),
      ],
      ['Failed attempts since it started', formatNumber(retries)],
      ...findLastStored(now),
      ...describeCopies(now),
    ] satisfies Check['facts'],
    about:
      'ClickHouse holds all events, profiles and sessions. Failed attempts are retried, and nothing is stored twice.',
  }
  const down = listLabelValues(
    samples.filter(({ value }) => value === 0),
    'tallyhouse_store_up',
    'shard',
  )
  if (findMin(samples, 'tallyhouse_store_up') === 0) {
    const which = down.length > 0 ? `Shard ${down.join(', ')} of ClickHouse` : 'ClickHouse'
    const verdict = `${which} is not responding. Events are accepted and wait in the journal, but reports cannot be loaded.`
    const advice =
      'Start ClickHouse, and check its address and password. If it is the embedded one, the service restarts it and logs why it stopped.'
    return { ...check, level: 'bad', verdict, advice }
  }
  const reasons = findIncreasedLabels(now, first, 'tallyhouse_block_retries_total', 'reason')
  if (reasons.length > 0) {
    const failed = formatCount(computeIncrease(now, first, 'tallyhouse_block_retries_total'), 'time')
    const verdict = `Storing failed ${failed} ${describeRecent(history)} because ${joinReasons(reasons, RETRY_REASONS)}. It is retried automatically.`
    return { ...check, level: 'watch', verdict, advice: 'If this continues, check ClickHouse’s memory, disk and log.' }
  }
  if (findMin(samples, 'tallyhouse_store_priorities') === 0) {
    const verdict = 'ClickHouse is storing events, but cannot give them priority: they wait while reports are computed.'
    const advice = 'Grant the service CAP_SYS_NICE, for example with AmbientCapabilities=CAP_SYS_NICE in systemd.'
    return { ...check, level: 'watch', verdict, advice }
  }
  return { ...check, level: 'good', verdict: 'ClickHouse is storing events.', advice: null }
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
    ...listStoreDisks(samples).map(({ disk, shard }) => {
      const labels = { disk, ...(shard !== undefined && { shard }) }
      return measureDisk(samples, 'store_disk', labels, `ClickHouse, ${disk}${shard ? `, shard ${shard}` : ''}`)
    }),
  ]
  const min = Math.min(1, ...disks.map(({ share }) => share))
  const level = min < FREE_SHARE.bad ? 'bad' : min < FREE_SHARE.watch ? 'watch' : 'good'
  return {
    title: 'Disk',
    level: disks.length > 0 ? level : 'watch',
    verdict: disks.length > 0 ? `${formatShare(min)} of the disk is free.` : 'The free disk space is unknown.',
    advice:
      level === 'good'
        ? null
        : 'Free up space or enlarge the disk. When it is full, nothing is stored and events are refused.',
    facts: disks.map(({ name, free, size }) => [name, `${formatBytes(free)} of ${formatBytes(size)} free`]),
    about: 'ClickHouse needs space to merge its data, and the embedded journal for events that wait to be stored.',
  }
}

/** The disks of ClickHouse: each shard has its own, with the same names. */
function listStoreDisks(samples: readonly Sample[]): { disk: string; shard?: string }[] {
  const disks = samples.flatMap(({ name, labels: { disk = '', shard } }) => {
    return name === 'tallyhouse_store_disk_free_bytes' ? [JSON.stringify({ disk, shard })] : []
  })
  return [...new Set(disks)].map((text) => JSON.parse(text))
}

function measureDisk(samples: readonly Sample[], metric: string, labels: Record<string, string>, name: string) {
  const free = findMin(samples, `tallyhouse_${metric}_free_bytes`, labels) ?? 0
  const size = findMin(samples, `tallyhouse_${metric}_size_bytes`, labels) ?? 0
  return { name, free, size, share: size > 0 ? free / size : 0 }
}

function checkDeadLetters(history: History): Check {
  const { now, first } = history
  const count = sumSamples(now.samples, 'tallyhouse_dead_letters_total')
  const lately = computeIncrease(now, first, 'tallyhouse_dead_letters_total')
  return {
    title: 'Dead letters',
    level: lately > 0 ? 'watch' : 'good',
    verdict:
      lately > 0
        ? `${formatCount(lately, 'request')} could not be stored ${describeRecent(history)}.`
        : `No dead letters ${describeRecent(history)}.`,
    advice: lately > 0 ? 'Open the dead letters to see why, fix the cause, and replay them.' : null,
    facts: [['Dead letters since it started', formatNumber(count)]],
    about: 'Data that ClickHouse cannot read is kept here unchanged, with the reason. Other events are not held up.',
    link: { text: 'Show the dead letters', to: ['data', 'dead-letters'] },
  }
}

function checkNames(history: History): Check {
  const { now, first } = history
  const count = (name: string) => sumSamples(now.samples, `tallyhouse_${name}_total`)
  const lately = (name: string) => computeIncrease(now, first, `tallyhouse_${name}_total`)
  const [placeholders, refused] = [lately('placeholder_names'), lately('alias_conflicts')]
  const messages = formatCount(placeholders, 'message')
  const links = formatCount(refused, 'link was', 'links were')
  const findings = [
    ...(placeholders > 0 ? [`${messages} had a placeholder, such as undefined, instead of a user id`] : []),
    ...(refused > 0 ? [`${links} refused because both names are known users`] : []),
  ]
  const when = describeRecent(history)
  return {
    title: 'User names',
    level: findings.length > 0 ? 'watch' : 'good',
    verdict:
      findings.length > 0
        ? `${when.charAt(0).toUpperCase()}${when.slice(1)}, ${findings.join(', and ')}.`
        : `No placeholders and no refused links ${when}.`,
    advice:
      findings.length > 0
        ? 'Look for a client that sends events before it knows the user’s id, or with another user’s id. Events keep the name they were sent with.'
        : null,
    facts: [
      ['Placeholders since it started', formatNumber(count('placeholder_names'))],
      ['Refused links since it started', formatNumber(count('alias_conflicts'))],
    ],
    about:
      'A link makes two names one user. Placeholders are never linked, nor are two known users because a client guessed that they are the same.',
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
      ? `The service is busy: responses were delayed by up to ${formatDuration(1000 * lag)}.`
      : `The service is using ${formatBytes(resident)} of memory and responding without delay.`,
    advice: isSlow
      ? 'If this continues, give the service more cores (WORKERS), or have clients send events in batches.'
      : null,
    facts: [
      ['Memory', formatBytes(resident)],
      ['JavaScript heap', formatBytes(sumSamples(samples, 'nodejs_heap_size_used_bytes'))],
      ['Longest delay', formatDuration(1000 * lag)],
      ['Live streams', formatNumber(sumSamples(samples, 'tallyhouse_live_streams'))],
    ],
    about: 'For the process that served this page. ClickHouse and Redis are not included.',
  }
}

function joinReasons(reasons: string[], texts: Record<string, string>): string {
  return reasons.map((reason) => texts[reason] ?? reason).join(' and because ')
}

function joinTitles(checks: readonly Check[]): string {
  return checks.map(({ title }) => title.toLowerCase()).join(', ')
}
