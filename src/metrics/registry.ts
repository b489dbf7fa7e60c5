import type { LedgerWatch } from '../damage/ledger-watch.js'
import type { PartsWatch } from '../damage/parts-watch.js'
import type { Admission } from '../http/admission/admission.js'
import type { IgnoredFields } from '../http/ignored-fields.js'
import type { LimitCounts } from '../http/limit-counts.js'
import type { RequestMetrics } from '../http/request-metrics.js'
import type { Depth, Share } from '../journal/journal.js'
import type { Lane } from '../lanes/lane.js'
import { withTimeout } from '../lib/with-timeout.js'
import type { LiveMetrics } from '../live/hub.js'
import { parseSender } from '../model/sender.js'
import type { QuotaWatch } from '../projects/quota-watch.js'
import type { StateMetrics } from '../states/state-store.js'
import type { LinkMetrics } from '../users/aliases/alias-links.js'
import { VERSION } from '../version.js'
import { buildIdMetrics } from './insert-ids.js'
import { buildLedgerMetrics } from './ledger.js'
import { buildLossMetrics } from './losses.js'
import { byLabel, counter, gauge, histogram, type LabeledValue, type Metric, numbered } from './metric.js'
import { ProcessMonitor, type ProcessReading } from './process.js'
import { READING_LIMIT_MS, type StorageReading } from './storage.js'

type MeteredLane = Pick<Lane, 'number' | 'journal' | 'commits' | 'writer' | 'profiles' | 'sessions'>

export interface MetricsSources {
  role: string
  requests: RequestMetrics
  limitCounts: Pick<LimitCounts, 'all'>
  ignored: Pick<IgnoredFields, 'counts'>
  admission: Pick<Admission, 'bodyBytes'>
  /** by number; if there are several, the metrics of each are labelled with its number */
  lanes: readonly MeteredLane[]
  /** called for each scrape; never rejects */
  storage: () => Promise<StorageReading>
  links: { metrics: LinkMetrics }
  /** see `Lanes.lateClockReads` */
  lateClockReads: readonly number[]
  live: { metrics: LiveMetrics }
  parts: Pick<PartsWatch, 'byShard'>
  ledger: Pick<LedgerWatch, 'ledgers'>
  quotas: Pick<QuotaWatch, 'statuses'>
  /** by shard: the number of events that are not copied into facts yet, and whether copying waits for disk space */
  facts: { readonly waiting: readonly (number | null)[]; readonly shortOfDisk: readonly (boolean | null)[] }
}

/**
 * The metrics of this process. The parts count in plain fields; names and labels are made here, at
 * a scrape. Every label comes from a registered route, a list in the code or the operator's keys, never from a request.
 */
export class Metrics {
  readonly #sources: MetricsSources
  readonly #process = new ProcessMonitor()
  #inFlight: Promise<Metric[]> | null = null

  constructor(sources: MetricsSources) {
    this.#sources = sources
  }

  /** Concurrent callers share one reading, so that frequent scrapes cannot load the journal. */
  read(): Promise<Metric[]> {
    this.#inFlight ??= this.#read().finally(() => {
      this.#inFlight = null
    })
    return this.#inFlight
  }

  close(): void {
    this.#process.close()
  }

  async #read(): Promise<Metric[]> {
    const { lanes, role } = this.#sources
    const [process, depths, uses, storage] = await Promise.all([
      this.#process.read(),
      Promise.all(lanes.map(({ journal }) => withTimeout(journal.depth(), READING_LIMIT_MS).catch(() => null))),
      Promise.all(lanes.map(({ journal }) => withTimeout(journal.ids.use(), READING_LIMIT_MS).catch(() => null))),
      this.#sources.storage(),
    ])
    return [
      ...requestMetrics(this.#sources.requests),
      limitMetric(this.#sources.limitCounts),
      counter(
        'tallyhouse_events_with_ignored_fields_total',
        'Events of /track with fields that are ignored and look like mistakes, by project; the log names them.',
        this.#sources.ignored.counts.map(([project, events]) => [{ project }, events]),
      ),
      gauge(
        'tallyhouse_body_memory_bytes',
        'Memory of request bodies over 8 KiB, limited by BODY_MEMORY, by whether the key is known.',
        byLabel('key', this.#sources.admission.bodyBytes),
      ),
      ...eventMetrics(lanes),
      ...journalMetrics(depths),
      ...buildIdMetrics(uses, Date.now()),
      ...writerMetrics(lanes),
      ...storageMetrics(storage),
      ...buildLossMetrics(this.#sources.parts),
      gauge(
        'tallyhouse_facts_waiting_events',
        'Stored events that are not copied into facts yet, at most; questions find them in the events.',
        numbered('shard', this.#sources.facts.waiting, (count) => count),
      ),
      gauge(
        'tallyhouse_facts_short_of_disk',
        'Whether copying of facts pauses, because the disk of ClickHouse is almost full.',
        numbered('shard', this.#sources.facts.shortOfDisk, (isShort) => (isShort === null ? null : Number(isShort))),
      ),
      ...buildQuotaMetrics(this.#sources.quotas),
      ...buildLedgerMetrics(this.#sources.ledger.ledgers),
      ...stateMetrics(lanes),
      counter(
        'tallyhouse_late_clock_reads_total',
        "Reads that ended early because this lane's clock is over a minute behind another's.",
        numbered('lane', this.#sources.lateClockReads, (count) => count),
      ),
      counter(
        'tallyhouse_alias_conflicts_total',
        'Aliases that were refused because they name another user, or are a user themselves.',
        this.#sources.links.metrics.conflicts,
      ),
      counter(
        'tallyhouse_placeholder_names_total',
        'Events, links and profile changes that SDKs sent for a placeholder id, such as undefined.',
        byLabel('kind', this.#sources.links.metrics.placeholders),
      ),
      ...liveMetrics(this.#sources.live.metrics),
      ...processMetrics(process),
      gauge('tallyhouse_info', 'Version and role of this process.', [
        [{ version: VERSION, node: globalThis.process.version, role }, 1],
      ]),
    ]
  }
}

function requestMetrics({ routes, unmatched }: RequestMetrics): Metric[] {
  const all = [...routes, unmatched]
  const statuses: LabeledValue<number>[] = []
  for (const { method, route, responses } of all) {
    // Most pairs of route and status have no count, so create samples only for those that do.
    responses.forEach((count, status) => {
      if (count > 0) statuses.push([{ method, route, status: String(status) }, count])
    })
  }
  return [
    counter('tallyhouse_http_requests_total', 'Requests by route pattern and status.', statuses),
    histogram(
      'tallyhouse_http_request_duration_seconds',
      'From the end of the request headers to the beginning of the response.',
      all.map(({ method, route, seconds }) => [{ method, route }, seconds.count > 0 ? seconds : null]),
    ),
  ]
}

function limitMetric({ all }: MetricsSources['limitCounts']): Metric {
  return counter(
    'tallyhouse_limit_refusals_total',
    'Requests that a limit refused, by project and kind of key; both are empty if the key is not known.',
    all.map(({ limit, projectId, keyKind, count }) => [{ limit, project: projectId, kind: keyKind ?? '' }, count]),
  )
}

function buildQuotaMetrics({ statuses }: MetricsSources['quotas']): Metric[] {
  const list = (value: 'used' | 'limit') =>
    statuses.map(
      ({ projectId, name, mode, ...rest }): LabeledValue<number> => [
        { project: projectId, quota: name, mode },
        rest[value],
      ],
    )
  return [
    gauge('tallyhouse_quota_used', 'How much of each quota a project has used.', list('used')),
    gauge('tallyhouse_quota_limit', 'The quotas of projects; hard ones refuse events.', list('limit')),
  ]
}

function eventMetrics(lanes: readonly MeteredLane[]): Metric[] {
  return [
    counter(
      'tallyhouse_events_accepted_total',
      'Events that are durable in the journal.',
      numbered('lane', lanes, ({ commits }) => commits.metrics.accepted),
    ),
    counter(
      'tallyhouse_events_repeated_total',
      'Events that were not stored again because their insert_id was known.',
      numbered('lane', lanes, ({ commits }) => commits.metrics.repeated),
    ),
    counter(
      'tallyhouse_events_refused_total',
      'Valid events that the journal refused, by error code.',
      numbered('lane', lanes, ({ commits }) => byLabel('code', commits.metrics.refused)),
    ),
    counter(
      'tallyhouse_events_over_share_total',
      'Events refused as overloaded whose project had filled its own share of the journal; others had room.',
      numbered('lane', lanes, ({ commits }) => commits.metrics.overShare),
    ),
    counter(
      'tallyhouse_rows_stored_total',
      'Rows that this process stored in ClickHouse.',
      numbered('lane', lanes, ({ writer }) => byLabel('table', writer.metrics.stored)),
    ),
    gauge(
      'tallyhouse_last_stored_timestamp_seconds',
      'When this process last stored a block in ClickHouse, in seconds since 1970.',
      numbered('lane', lanes, ({ writer: { metrics } }): LabeledValue<number>[] => [
        [{}, metrics.storedAt === null ? null : metrics.storedAt / 1000],
      ]),
    ),
    counter(
      'tallyhouse_dead_letters_total',
      'Events and rows that ClickHouse cannot parse, stored in dead_letters.',
      numbered('lane', lanes, ({ writer }) => byLabel('table', writer.metrics.dead)),
    ),
    counter(
      'tallyhouse_entries_rewritten_total',
      'Entries that were rewritten before they were stored.',
      numbered('lane', lanes, ({ writer }) => writer.metrics.rewritten),
    ),
  ]
}

/** @param depths by lane; null for a journal that did not respond */
function journalMetrics(depths: (Depth | null)[]): Metric[] {
  const of = (field: Exclude<keyof Depth, 'large'>, unit = 1) =>
    numbered('lane', depths, (depth): LabeledValue<number>[] => [[{}, depth && depth[field] / unit]])
  return [
    gauge(
      'tallyhouse_journal_up',
      'Whether the journal responds.',
      numbered('lane', depths, (depth) => (depth ? 1 : 0)),
    ),
    gauge('tallyhouse_journal_entries', 'Entries that are not stored in ClickHouse yet.', of('entries')),
    gauge('tallyhouse_journal_bytes', 'Bytes of entries that are not stored in ClickHouse yet.', of('bytes')),
    gauge(
      'tallyhouse_journal_state_bytes',
      'Bytes of changed profiles and sessions that are not stored in ClickHouse yet.',
      of('stateBytes'),
    ),
    gauge(
      'tallyhouse_journal_cached_state_bytes',
      'Bytes of stored profiles and sessions that the journal keeps for some minutes. They do not count towards its limit.',
      of('cachedBytes'),
    ),
    gauge(
      'tallyhouse_journal_project_bytes',
      'Bytes of the journal that a project uses with one class of keys, if they are over a sixteenth of the limit.',
      numbered('lane', depths, (depth) => (depth?.large ?? []).map(sharesReading)),
    ),
    gauge('tallyhouse_journal_limit_bytes', 'Requests are refused above this size of the journal.', of('limitBytes')),
    gauge(
      'tallyhouse_journal_oldest_seconds',
      'Age of the oldest entry that is not stored in ClickHouse yet.',
      of('oldestMs', 1000),
    ),
  ]
}

function writerMetrics(lanes: readonly MeteredLane[]): Metric[] {
  return [
    histogram(
      'tallyhouse_journal_write_duration_seconds',
      'Writes to the journal, until they are durable.',
      numbered('lane', lanes, ({ commits }) => commits.metrics.writeSeconds),
    ),
    histogram(
      'tallyhouse_block_entries',
      'Entries per stored block.',
      numbered('lane', lanes, ({ writer }) => writer.metrics.blockEntries),
    ),
    histogram(
      'tallyhouse_block_bytes',
      'Bytes per stored block.',
      numbered('lane', lanes, ({ writer }) => writer.metrics.blockBytes),
    ),
    histogram(
      'tallyhouse_insert_duration_seconds',
      'INSERTs of blocks that got a response from ClickHouse.',
      numbered('lane', lanes, ({ writer }) => byLabel('table', writer.metrics.insertSeconds)),
    ),
    counter(
      'tallyhouse_block_retries_total',
      'Retries of blocks, by reason.',
      numbered('lane', lanes, ({ writer }) => byLabel('reason', writer.metrics.retries)),
    ),
  ]
}

function storageMetrics({ shards, dataDir, hasPriorities }: StorageReading): Metric[] {
  const ofDisks = (field: 'freeBytes' | 'totalBytes') =>
    numbered('shard', shards, ({ disks }) =>
      disks.map(({ name, [field]: bytes }): LabeledValue<number> => [{ disk: name }, bytes]),
    )
  return [
    gauge(
      'tallyhouse_store_up',
      'Whether ClickHouse answers queries.',
      numbered('shard', shards, ({ isUp }) => (isUp ? 1 : 0)),
    ),
    gauge('tallyhouse_store_disk_free_bytes', 'Free space on the disks of ClickHouse.', ofDisks('freeBytes')),
    gauge('tallyhouse_store_disk_size_bytes', 'Size of the disks of ClickHouse.', ofDisks('totalBytes')),
    gauge(
      'tallyhouse_store_priorities',
      'Whether the embedded ClickHouse can give queries a lower priority than events.',
      hasPriorities === null ? null : Number(hasPriorities),
    ),
    gauge('tallyhouse_data_dir_free_bytes', 'Free space on the file system of DATA_DIR.', dataDir?.freeBytes ?? null),
    gauge('tallyhouse_data_dir_size_bytes', 'Size of the file system of DATA_DIR.', dataDir?.totalBytes ?? null),
  ]
}

function stateMetrics(lanes: readonly MeteredLane[]): Metric[] {
  const of = (read: (metrics: StateMetrics, kind: string) => LabeledValue<number>[]) =>
    numbered('lane', lanes, ({ profiles, sessions }) => [
      ...read(profiles.metrics, 'profiles'),
      ...read(sessions.metrics, 'sessions'),
    ])
  return [
    counter(
      'tallyhouse_state_reads_total',
      'Profiles and sessions read, from the journal as a cache or from ClickHouse, or known to be new.',
      of(({ inJournal, inStore, isNew }, kind) => [
        [{ kind, source: 'journal' }, inJournal],
        [{ kind, source: 'store' }, inStore],
        [{ kind, source: 'new' }, isNew],
      ]),
    ),
    counter(
      'tallyhouse_state_conflicts_total',
      'Changes that were retried because another process made one first.',
      of(({ conflicts }, kind) => [[{ kind }, conflicts]]),
    ),
  ]
}

function liveMetrics({ listeners, events, ended, failures }: LiveMetrics): Metric[] {
  return [
    gauge('tallyhouse_live_streams', 'Open live streams.', listeners),
    counter('tallyhouse_live_events_total', 'Events sent over live streams, counted for each stream.', events),
    counter(
      'tallyhouse_live_streams_ended_total',
      'Live streams that the service ended, by reason; clients that left are not counted.',
      byLabel('reason', ended),
    ),
    counter(
      'tallyhouse_live_failures_total',
      'Failed attempts to read new events for live streams, which are retried.',
      failures,
    ),
  ]
}

/** Under the names that Prometheus' client libraries share. */
function processMetrics(process: ProcessReading): Metric[] {
  const { p50, p99, max } = process.eventLoopLag
  return [
    gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', process.startedAt),
    gauge('process_resident_memory_bytes', 'Resident memory.', process.residentBytes),
    gauge('process_open_fds', 'Open file descriptors.', process.openFiles),
    gauge('nodejs_heap_size_used_bytes', 'JavaScript heap in use.', process.heapUsedBytes),
    gauge('nodejs_heap_size_total_bytes', 'JavaScript heap.', process.heapTotalBytes),
    gauge('nodejs_external_memory_bytes', 'Memory of buffers.', process.externalBytes),
    gauge('nodejs_eventloop_lag_p50_seconds', 'Median lag since the last scrape.', p50),
    gauge('nodejs_eventloop_lag_p99_seconds', 'p99 lag since the last scrape.', p99),
    gauge('nodejs_eventloop_lag_max_seconds', 'Maximum lag since the last scrape.', max),
    counter('process_cpu_user_seconds_total', 'CPU time in user mode.', process.userCpuSeconds),
    counter('process_cpu_system_seconds_total', 'CPU time in the kernel.', process.systemCpuSeconds),
  ]
}

function sharesReading({ holder, bytes }: Share): LabeledValue<number> {
  const { projectId: project, keyClass: kind } = parseSender(holder)
  return [{ project, kind }, bytes]
}
