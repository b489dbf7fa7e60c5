import { type Bench, type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { time } from '../calls.js'
import { spreadOf } from '../figures.js'
import { load } from '../load.js'
import { BATCH, batches, type HttpRequest, type RequestList, writeRequests } from '../requests.js'
import { type Running, SECRET_KEY } from '../servers.js'
import { Store } from '../store.js'

const EVENTS = 20_000_000
const MONTHS = 24
const EXPIRED_MONTHS = 11
const MONTH_MS = (365.25 / 12) * 86_400_000
/** The time of each event is still compared, as when some expire. */
const NOTHING_EXPIRES = '99y'
const CONNECTIONS = 8
const LIMIT_MS = 10 * 60_000

/** How the months were stored: each in its own partition, or all in one. */
const KINDS = { live: 'sent as they happened', import: 'imported in one go' } as const

interface Aged {
  service: Running
  /** settings of its journal, for a second service on the same store */
  journal: Record<string, string>
  clickhouse: string
  store: Store
  ingestion: RequestList
  question: HttpRequest
}

/**
 * The cost of removing 11 of 24 months: ingestion and a question in the meantime, compared with before, and the disk
 * space. A second service removes them, because a service checks for expired data when it starts; it shares the machine
 * with everything else.
 */
export const ageing: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = new URL(await servers.clickhouse())
  const ingestion = await writeRequests(servers.folder, await newBatches())
  const body = JSON.stringify({ kind: 'series', series: [{ event: 'release published' }] })
  const question: HttpRequest = { method: 'POST', path: '/public/query', body }
  for (const [kind, name] of Object.entries(KINDS)) {
    clickhouse.pathname = `/ageing_${kind}`
    const journal = { REDIS_URL: (await servers.redis()).url }
    const service = await servers.tallyhouse(clickhouse.href, journal)
    const store = new Store(clickhouse.href)
    const over = 'before'
    const figures = {
      ingested: bench.figure(`ingestion while months expire, ${name}`, { unit: 'events/s', over }),
      asked: bench.figure(`question while months expire, ${name}`, { unit: 'ms', over }),
      most: bench.figure(`most on the disk meanwhile, ${name}`, { unit: 'MiB', over }),
      left: bench.figure(`left on the disk, ${name}`, { unit: 'MiB', over }),
      ms: bench.figure(`until they have left the disk, ${name}`, { unit: 'ms' }),
    }
    await eachRound(bench, null, async () => {
      await keepEvents(service, NOTHING_EXPIRES)
      await store.fill(bench.events(EVENTS), { ms: MONTHS * MONTH_MS, isImported: kind === 'import' })
      const aged = { service, journal, clickhouse: clickhouse.href, store, ingestion, question }
      const { before, during, disk, ms } = await expire(bench, aged)
      figures.ingested(during.perSecond, before.perSecond)
      figures.asked(during.askedMs, before.askedMs)
      figures.most(disk.most, disk.before)
      figures.left(disk.left, disk.before)
      figures.ms(ms)
    })
  }
}

async function expire(bench: Bench, { service, journal, clickhouse, store, ingestion, question }: Aged) {
  const { servers } = bench
  const { url } = service
  const ingest = (seconds: number) => load(servers, { url, requests: ingestion, connections: CONNECTIONS, seconds })
  const measure = async () => {
    let isOver = false
    const asking = async () => {
      const all: number[] = []
      // At least once, because the question may take longer than the ingestion.
      do all.push(await time(url, question, 1))
      while (!isOver)
      return spreadOf(all).median
    }
    const ingesting = ingest(bench.seconds).finally(() => {
      isOver = true
    })
    const [written, askedMs] = await Promise.all([ingesting, asking()])
    return { perSecond: written.perSecond * BATCH, askedMs }
  }
  await ingest(WARM_UP_SECONDS)
  await untilVisible(url)
  await store.quiet()
  const filledMib = await measureDisk(store, 'in use')
  const before = await measure()
  await untilVisible(url)

  await keepEvents(service, `${MONTHS - EXPIRED_MONTHS}m`)
  // As if the last run had been an hour ago.
  await store.text('TRUNCATE TABLE turns')
  await store.text(
    `INSERT INTO turns (task, turn, process) SELECT 'retention', ${Date.now() - 3_600_000}, generateUUIDv4()`,
  )
  const second = await servers.inner()
  const began = performance.now()
  await second.tallyhouse(clickhouse, journal)
  const samples: Awaited<ReturnType<typeof measure>>[] = []
  let most = filledMib
  do {
    if (performance.now() - began > LIMIT_MS) throw new Error('expired events are still on the disk')
    samples.push(await measure())
    most = Math.max(most, await measureDisk(store, 'all'))
  } while (!(await areRemoved(store)))
  const ms = performance.now() - began
  await second.close()
  await untilVisible(url)
  await store.quiet()
  const during = {
    perSecond: spreadOf(samples.map(({ perSecond }) => perSecond)).median,
    askedMs: spreadOf(samples.map(({ askedMs }) => askedMs)).median,
  }
  return { before, during, disk: { before: filledMib, most, left: await measureDisk(store, 'in use') }, ms }
}

/** Like `batches`, but the events have no time, so they happen when they are received. */
async function newBatches(): Promise<HttpRequest[]> {
  const withoutTimes = (body: string) => body.replaceAll(/"timestamp":\d+,|,"timestamp":\d+/g, '')
  return (await batches()).map((request) => ({ ...request, body: withoutTimes(request.body ?? '') }))
}

async function keepEvents({ url }: Running, events: string): Promise<void> {
  const response = await fetch(`${url}/public/project`, {
    method: 'PATCH',
    headers: { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' },
    body: JSON.stringify({ keep: { events } }),
  })
  if (!response.ok) throw new Error(`the settings were not changed: ${await response.text()}`)
}

/** MiB of the earlier months' parts, which contain no events sent in the meantime. `all` includes replaced parts. */
async function measureDisk(store: Store, parts: 'in use' | 'all'): Promise<number> {
  return await store.number(
    `SELECT sum(bytes_on_disk) / 1048576 FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND ${parts === 'all' ? '1' : 'active'}
       AND splitByChar('-', partition_id)[-1] < formatDateTime(now('UTC'), '%Y%m')`,
  )
}

/** Whether no part in use has expired events any more, not even as deleted rows. */
async function areRemoved(store: Store): Promise<boolean> {
  const before = Date.now() - (MONTHS - EXPIRED_MONTHS + 0.5) * MONTH_MS
  const left = await store.number(
    `SELECT count() FROM events WHERE timestamp < ${before} SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0`,
  )
  return left === 0
}
