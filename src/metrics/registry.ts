import type { Admission } from '../http/admission.js'
import type { RequestMetrics } from '../http/request-metrics.js'
import type { Depth } from '../journal/journal.js'
import { inTime } from '../lib/in-time.js'
import type { Lane } from '../pipeline/lane.js'
import { VERSION } from '../version.js'
import { byLabel, counter, gauge, histogram, type Metric, type Reading } from './metric.js'
import { ProcessMonitor, type ProcessReading } from './process.js'
import { READING_LIMIT_MS, type StorageReading } from './storage.js'

export interface MetricsSources {
  role: string
  requests: RequestMetrics
  admission: Pick<Admission, 'bodyBytes'>
  lane: Pick<Lane, 'journal' | 'commits' | 'writer' | 'profiles' | 'sessions'>
  /** called at each scrape; never rejects */
  storage: () => Promise<StorageReading>
}

/**
 * The metrics of this process. The parts count in plain fields; names and labels are made here, at
 * a scrape. Every label comes from a registered route or a list in the code, never from a request.
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
    const { lane, role } = this.#sources
    const [process, depth, storage] = await Promise.all([
      this.#process.read(),
      inTime(lane.journal.depth(), READING_LIMIT_MS).catch(() => null),
      this.#sources.storage(),
    ])
    return [
      ...requestMetrics(this.#sources.requests),
      gauge(
        'tallyhouse_body_memory_bytes',
        'Memory of request bodies over 8 KiB, limited by BODY_MEMORY; by whether the key is known.',
        byLabel('key', this.#sources.admission.bodyBytes),
      ),
      ...eventMetrics(lane),
      ...journalMetrics(depth),
      ...writerMetrics(lane),
      ...storageMetrics(storage),
      ...stateMetrics(lane),
      ...processMetrics(process),
      gauge('tallyhouse_info', 'Version and role of this process.', [
        [{ version: VERSION, node: globalThis.process.version, role }, 1],
      ]),
    ]
  }
}

function requestMetrics({ routes, unmatched }: RequestMetrics): Metric[] {
  const all = [...routes, unmatched]
  const statuses = all.flatMap(({ method, route, responses }) =>
    Array.from(responses).flatMap((count, status): Reading<number>[] =>
      count > 0 ? [[{ method, route, status: String(status) }, count]] : [],
    ),
  )
  return [
    counter('tallyhouse_http_requests_total', 'Requests by route pattern and status.', statuses),
    histogram(
      'tallyhouse_http_request_duration_seconds',
      'From the end of the request headers to the beginning of the response.',
      all.map(({ method, route, seconds }) => [{ method, route }, seconds.count > 0 ? seconds : null]),
    ),
  ]
}

function eventMetrics({ commits, writer }: MetricsSources['lane']): Metric[] {
  const { accepted, refused } = commits.metrics
  const { stored, dead, rewritten } = writer.metrics
  return [
    counter('tallyhouse_events_accepted_total', 'Events that are durable in the journal.', accepted),
    counter(
      'tallyhouse_events_refused_total',
      'Valid events that the journal refused, by error code.',
      byLabel('code', refused),
    ),
    counter('tallyhouse_rows_stored_total', 'Rows that this process stored in ClickHouse.', byLabel('table', stored)),
    counter(
      'tallyhouse_dead_letters_total',
      'Events and rows that ClickHouse cannot parse, stored in dead_letters.',
      byLabel('table', dead),
    ),
    counter('tallyhouse_entries_rewritten_total', 'Entries that were stored in another spelling.', rewritten),
  ]
}

function journalMetrics(depth: Depth | null): Metric[] {
  return [
    gauge('tallyhouse_journal_up', 'Whether the journal responds.', depth ? 1 : 0),
    gauge('tallyhouse_journal_entries', 'Entries that are not stored in ClickHouse yet.', depth?.entries ?? null),
    gauge('tallyhouse_journal_bytes', 'Bytes of entries that are not stored in ClickHouse yet.', depth?.bytes ?? null),
    gauge(
      'tallyhouse_journal_state_bytes',
      'Bytes of profiles and sessions in the journal.',
      depth?.stateBytes ?? null,
    ),
    gauge(
      'tallyhouse_journal_limit_bytes',
      'Requests are refused above this size of the journal.',
      depth?.limitBytes ?? null,
    ),
    gauge(
      'tallyhouse_journal_oldest_seconds',
      'Age of the oldest entry that is not stored in ClickHouse yet.',
      depth && depth.oldestMs / 1000,
    ),
  ]
}

function writerMetrics({ commits, writer }: MetricsSources['lane']): Metric[] {
  const { blockEntries, blockBytes, insertSeconds, retries } = writer.metrics
  return [
    histogram(
      'tallyhouse_journal_write_duration_seconds',
      'Writes to the journal, until they are durable.',
      commits.metrics.writeSeconds,
    ),
    histogram('tallyhouse_block_entries', 'Entries per stored block.', blockEntries),
    histogram('tallyhouse_block_bytes', 'Bytes per stored block.', blockBytes),
    histogram(
      'tallyhouse_insert_duration_seconds',
      'INSERTs of blocks that got a response from ClickHouse.',
      byLabel('table', insertSeconds),
    ),
    counter('tallyhouse_block_retries_total', 'Retries of blocks, by reason.', byLabel('reason', retries)),
  ]
}

function storageMetrics({ isStoreUp, disks, dataDir }: StorageReading): Metric[] {
  return [
    gauge('tallyhouse_store_up', 'Whether ClickHouse answers queries.', isStoreUp ? 1 : 0),
    gauge(
      'tallyhouse_store_disk_free_bytes',
      'Free space on the disks of ClickHouse.',
      disks.map(({ name, freeBytes }) => [{ disk: name }, freeBytes]),
    ),
    gauge(
      'tallyhouse_store_disk_size_bytes',
      'Size of the disks of ClickHouse.',
      disks.map(({ name, totalBytes }) => [{ disk: name }, totalBytes]),
    ),
    gauge('tallyhouse_data_dir_free_bytes', 'Free space on the file system of DATA_DIR.', dataDir?.freeBytes ?? null),
    gauge('tallyhouse_data_dir_size_bytes', 'Size of the file system of DATA_DIR.', dataDir?.totalBytes ?? null),
  ]
}

function stateMetrics({ profiles, sessions }: MetricsSources['lane']): Metric[] {
  const kinds = Object.entries({ profiles: profiles.metrics, sessions: sessions.metrics })
  return [
    counter(
      'tallyhouse_state_reads_total',
      'Profiles and sessions read, from the journal as a cache or from ClickHouse.',
      kinds.flatMap(([kind, { inJournal, inStore }]): Reading<number>[] => [
        [{ kind, source: 'journal' }, inJournal],
        [{ kind, source: 'store' }, inStore],
      ]),
    ),
    counter(
      'tallyhouse_state_conflicts_total',
      'Changes that were retried because another process was faster.',
      kinds.map(([kind, { conflicts }]) => [{ kind }, conflicts]),
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
