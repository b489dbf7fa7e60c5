import { Counter, Gauge, Registry, Histogram as RegistryHistogram } from 'prom-client'
import type { RequestMetrics } from '../http/request-metrics.js'
import type { Depth, Journal } from '../journal/journal.js'
import type { Histogram } from '../lib/histogram.js'
import type { StateKind } from '../model/state-key.js'
import type { CommitMetrics } from '../pipeline/group-commit.js'
import type { StateMetrics } from '../pipeline/state-store.js'
import type { WriterMetrics } from '../pipeline/writer-metrics.js'
import { VERSION } from '../version.js'
import { ProcessFigures, type ProcessReading } from './process.js'
import type { StorageReading } from './storage.js'

export interface MetricsSources {
  role: string
  requests: RequestMetrics
  commits: CommitMetrics
  writer: WriterMetrics
  states: Record<StateKind, StateMetrics>
  journal: Journal
  /** asked at each scrape; never rejects */
  storage: () => Promise<StorageReading>
}

type Labels = Record<string, string>
/** One line of a metric; null is left out. */
type Sample<Value> = [labels: Labels, value: Value | null]

interface Reading {
  process: ProcessReading
  /** null where the journal did not answer */
  depth: Depth | null
  storage: StorageReading
}

/**
 * The figures of the parts as Prometheus reads them. The parts count in plain fields; names, labels and text are made
 * here, when somebody asks. All labels come from what is registered and listed in the code, never from a request.
 */
export class Metrics {
  readonly #registry = new Registry()
  readonly #process = new ProcessFigures()
  readonly #journal: Journal
  readonly #storage: () => Promise<StorageReading>
  #reading: Reading | null = null
  #asked: Promise<string> | null = null

  constructor(sources: MetricsSources) {
    this.#journal = sources.journal
    this.#storage = sources.storage
    this.#requests(sources)
    this.#events(sources)
    this.#journalAndWriter(sources)
    this.#stores()
    this.#states(sources)
    this.#processes(sources)
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** Those who ask at the same time share one answer, so that asking often cannot load the journal. */
  text(): Promise<string> {
    this.#asked ??= this.#read().finally(() => {
      this.#asked = null
    })
    return this.#asked
  }

  close(): void {
    this.#process.close()
  }

  async #read(): Promise<string> {
    const [process, depth, storage] = await Promise.all([
      this.#process.read(),
      this.#journal.depth().catch(() => null),
      this.#storage(),
    ])
    this.#reading = { process, depth, storage }
    return await this.#registry.metrics()
  }

  #requests({ requests }: MetricsSources): void {
    // Routes are registered after this.
    const all = () => [...requests.routes, requests.unmatched]
    this.#counter(
      'tallyhouse_http_requests_total',
      'Requests by route pattern and status.',
      () =>
        all().flatMap(({ method, route, responses }) =>
          Array.from(responses).flatMap((count, status): Sample<number>[] =>
            count > 0 ? [[{ method, route, status: String(status) }, count]] : [],
          ),
        ),
      ['method', 'route', 'status'],
    )
    this.#histogram(
      'tallyhouse_http_request_duration_seconds',
      'From the end of a request’s head to the beginning of its answer.',
      () => all().map(({ method, route, seconds }) => [{ method, route }, seconds.count > 0 ? seconds : null]),
    )
  }

  #events({ commits, writer }: MetricsSources): void {
    this.#counter('tallyhouse_events_accepted_total', 'Events that are durable in the journal.', () => [
      [{}, commits.accepted],
    ])
    this.#counter(
      'tallyhouse_events_refused_total',
      'Valid events that the journal did not take, by the code of the answer.',
      () => labelled('code', commits.refused),
      ['code'],
    )
    this.#counter(
      'tallyhouse_rows_stored_total',
      'Rows that this process brought into ClickHouse.',
      () => labelled('table', writer.stored),
      ['table'],
    )
    this.#counter(
      'tallyhouse_dead_letters_total',
      'Events and rows that ClickHouse could not read in any spelling, kept in dead_letters.',
      () => labelled('table', writer.dead),
      ['table'],
    )
    this.#counter('tallyhouse_entries_rewritten_total', 'Entries that were stored in another spelling.', () => [
      [{}, writer.rewritten],
    ])
  }

  #journalAndWriter({ commits, writer }: MetricsSources): void {
    const depth = () => this.#reading?.depth ?? null
    const secondsOf = (ms: number | undefined) => (ms === undefined ? null : ms / 1000)
    this.#gauge('tallyhouse_journal_up', 'Whether the journal answered just now.', () => [[{}, depth() ? 1 : 0]])
    this.#gauge('tallyhouse_journal_entries', 'Entries that ClickHouse does not have yet.', () => [
      [{}, depth()?.entries ?? null],
    ])
    this.#gauge('tallyhouse_journal_bytes', 'Bytes of the entries that ClickHouse does not have yet.', () => [
      [{}, depth()?.bytes ?? null],
    ])
    this.#gauge('tallyhouse_journal_state_bytes', 'Bytes of the profiles and sessions that the journal keeps.', () => [
      [{}, depth()?.stateBytes ?? null],
    ])
    this.#gauge('tallyhouse_journal_limit_bytes', 'Above it requests are refused.', () => [
      [{}, depth()?.limitBytes ?? null],
    ])
    this.#gauge(
      'tallyhouse_journal_oldest_seconds',
      'How long the oldest entry has been waiting for ClickHouse.',
      () => [[{}, secondsOf(depth()?.oldestMs)]],
    )
    this.#histogram(
      'tallyhouse_journal_write_duration_seconds',
      'Writes to the journal, until they are durable.',
      () => [[{}, commits.writeSeconds]],
    )
    this.#histogram('tallyhouse_block_entries', 'Entries of a block that was stored.', () => [
      [{}, writer.blockEntries],
    ])
    this.#histogram('tallyhouse_block_bytes', 'Bytes of a block that was stored.', () => [[{}, writer.blockBytes]])
    this.#histogram('tallyhouse_insert_duration_seconds', 'INSERTs of blocks that ClickHouse answered.', () =>
      labelled('table', writer.insertSeconds),
    )
    this.#counter(
      'tallyhouse_block_retries_total',
      'Blocks that had to go again, by reason.',
      () => labelled('reason', writer.retries),
      ['reason'],
    )
  }

  #stores(): void {
    const storage = () => this.#reading?.storage ?? null
    this.#gauge('tallyhouse_store_up', 'Whether ClickHouse answered a query just now.', () => [
      [{}, storage()?.isStoreUp ? 1 : 0],
    ])
    const ofDisks = (bytes: 'freeBytes' | 'totalBytes') => () =>
      (storage()?.disks ?? []).map((disk): Sample<number> => [{ disk: disk.name }, disk[bytes]])
    this.#gauge('tallyhouse_store_disk_free_bytes', 'What is free on ClickHouse’s disks.', ofDisks('freeBytes'), [
      'disk',
    ])
    this.#gauge('tallyhouse_store_disk_size_bytes', 'The size of ClickHouse’s disks.', ofDisks('totalBytes'), ['disk'])
    this.#gauge('tallyhouse_data_dir_free_bytes', 'What is free where DATA_DIR is.', () => [
      [{}, storage()?.dataDir?.freeBytes ?? null],
    ])
    this.#gauge('tallyhouse_data_dir_size_bytes', 'The size of the file system where DATA_DIR is.', () => [
      [{}, storage()?.dataDir?.totalBytes ?? null],
    ])
  }

  #states({ states }: MetricsSources): void {
    const kinds = Object.entries(states)
    this.#counter(
      'tallyhouse_state_reads_total',
      'Profiles and sessions that were read, from the journal as their cache or from ClickHouse.',
      () =>
        kinds.flatMap(([kind, { inJournal, inStore }]): Sample<number>[] => [
          [{ kind, source: 'journal' }, inJournal],
          [{ kind, source: 'store' }, inStore],
        ]),
      ['kind', 'source'],
    )
    this.#counter(
      'tallyhouse_state_conflicts_total',
      'Changes that another process came before.',
      () => kinds.map(([kind, { conflicts }]) => [{ kind }, conflicts]),
      ['kind'],
    )
  }

  /** Under the names that Prometheus' client libraries have in common. */
  #processes({ role }: MetricsSources): void {
    const figures: [name: string, help: string, value: (reading: ProcessReading) => number | null][] = [
      ['process_start_time_seconds', 'Start of the process, since 1970.', ({ startedAt }) => startedAt],
      ['process_resident_memory_bytes', 'Resident memory.', ({ residentBytes }) => residentBytes],
      ['process_open_fds', 'Open file descriptors.', ({ openFiles }) => openFiles],
      ['nodejs_heap_size_used_bytes', 'JavaScript heap in use.', ({ heapUsedBytes }) => heapUsedBytes],
      ['nodejs_heap_size_total_bytes', 'JavaScript heap.', ({ heapTotalBytes }) => heapTotalBytes],
      ['nodejs_external_memory_bytes', 'Memory of buffers.', ({ externalBytes }) => externalBytes],
      ['nodejs_eventloop_lag_p50_seconds', 'Median lag since the last scrape.', ({ eventLoopLag: { p50 } }) => p50],
      ['nodejs_eventloop_lag_p99_seconds', 'p99 lag since the last scrape.', ({ eventLoopLag: { p99 } }) => p99],
      ['nodejs_eventloop_lag_max_seconds', 'Longest lag since the last scrape.', ({ eventLoopLag: { max } }) => max],
    ]
    const read = (value: (reading: ProcessReading) => number | null) => (): Sample<number>[] => [
      [{}, this.#reading && value(this.#reading.process)],
    ]
    for (const [name, help, value] of figures) this.#gauge(name, help, read(value))
    const cpu: typeof figures = [
      ['process_cpu_user_seconds_total', 'CPU time in user mode.', ({ userCpuSeconds }) => userCpuSeconds],
      ['process_cpu_system_seconds_total', 'CPU time in the kernel.', ({ systemCpuSeconds }) => systemCpuSeconds],
    ]
    for (const [name, help, value] of cpu) this.#counter(name, help, read(value))
    const labels = { version: VERSION, node: process.version, role }
    this.#gauge('tallyhouse_info', 'What runs here.', () => [[labels, 1]], Object.keys(labels))
  }

  #counter(name: string, help: string, read: () => Sample<number>[], labelNames: string[] = []): void {
    const collect = function (this: Counter) {
      this.reset()
      for (const [labels, value] of read()) if (value !== null) this.inc(labels, value)
    }
    this.#registry.registerMetric(new Counter({ name, help, labelNames, collect, registers: [] }))
  }

  #gauge(name: string, help: string, read: () => Sample<number>[], labelNames: string[] = []): void {
    const collect = function (this: Gauge) {
      this.reset()
      // A reset leaves a zero, but what is not known is to be absent.
      if (labelNames.length === 0) this.remove()
      for (const [labels, value] of read()) if (value !== null) this.set(labels, value)
    }
    this.#registry.registerMetric(new Gauge({ name, help, labelNames, collect, registers: [] }))
  }

  #histogram(name: string, help: string, read: () => Sample<Histogram>[]): void {
    this.#registry.registerMetric(new FilledHistogram(name, help, read))
  }
}

/** Takes what was counted elsewhere, which prom-client's own has no way for: it wants to be told of every value. */
class FilledHistogram extends RegistryHistogram {
  readonly #name: string
  readonly #help: string
  readonly #read: () => Sample<Histogram>[]

  constructor(name: string, help: string, read: () => Sample<Histogram>[]) {
    super({ name, help, registers: [] })
    this.#name = name
    this.#help = help
    this.#read = read
  }

  /** What the registry asks a histogram for. */
  async getForPromString() {
    const values = this.#read().flatMap(([labels, histogram]) => (histogram ? this.#lines(labels, histogram) : []))
    return { name: this.#name, help: this.#help, type: 'histogram', values }
  }

  #lines(labels: Labels, { bounds, counts, sum }: Histogram) {
    let upTo = 0
    const buckets = counts.map((count, i) => {
      upTo += count
      const le = bounds[i] ?? '+Inf'
      return { metricName: `${this.#name}_bucket`, labels: { ...labels, le }, value: upTo }
    })
    return [
      ...buckets,
      { metricName: `${this.#name}_sum`, labels, value: sum },
      { metricName: `${this.#name}_count`, labels, value: upTo },
    ]
  }
}

function labelled<Value>(label: string, values: Record<string, Value>): Sample<Value>[] {
  return Object.entries(values).map(([name, value]) => [{ [label]: name }, value])
}
