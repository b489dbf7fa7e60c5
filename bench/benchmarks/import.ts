import { once } from 'node:events'
import { createWriteStream, existsSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { type Bench, type Benchmark, eachRound, untilVisible, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { BATCH, batchOf, type HttpRequest, realEvents, writeRequests } from '../requests.js'
import { CLI, peakMemory, SECRET_KEY } from '../servers.js'
import { Store } from '../store.js'

const CONNECTIONS = 8
const EVENTS = 3_000_000
/** The load tool holds this many events in memory, and repeats them. */
const MAX_DIFFERENT = 1_000_000
const LINES_TOGETHER = 5_000
const POLL_MS = 20

/**
 * An import by the command line: how many events per second become visible, compared with plain batch calls with about
 * as many of the same events. With fewer events, each would cost less, because ClickHouse merges them later.
 */
export const importFile: Benchmark = async (bench) => {
  const { servers } = bench
  if (!existsSync(CLI)) throw new Error(`${CLI} is missing; run npm run build`)
  const clickhouse = await servers.clickhouse()
  const service = await servers.tallyhouse(clickhouse)
  const store = new Store(clickhouse)
  const events = bench.events(EVENTS)
  const file = join(servers.folder, 'events.ndjson')
  await writeEvents(file, events)
  const requests = await writeRequests(servers.folder, await batchesOf(Math.min(events, MAX_DIFFERENT)))
  const stretch = { requests, connections: CONNECTIONS, url: service.url }
  const visible = bench.figure('visible', {
    unit: 'events/s',
    over: 'batch calls',
    goal: { of: 'ratio', target: 0.85, stretch: 0.95 },
  })
  const memory = bench.figure('peak memory of the command', {
    unit: 'MiB',
    goal: { of: 'value', target: 200, stretch: 120 },
  })

  const warmUp = await load(servers, { ...stretch, seconds: WARM_UP_SECONDS })
  const seconds = Math.max(1, Math.round(events / BATCH / warmUp.perSecond))
  await untilVisible(service.url)

  await eachRound(bench, store, async (round) => {
    const limit = await measured(store, service.url, async () => {
      const { requests, startedAt } = await load(servers, { ...stretch, seconds })
      return { sent: requests * BATCH, startedAt }
    })
    await store.quiet()
    let peak: number | null = null
    const ours = await measured(store, service.url, async () => {
      const startedAt = performance.now()
      peak = await runImport(bench, service.url, file, round)
      return { sent: events, startedAt }
    })
    visible(ours, limit)
    if (peak !== null) memory(peak)
  })
}

/**
 * @param send resolves with the number of events that it has sent, and since when.
 * @returns how many events per second became visible
 */
async function measured(store: Store, url: string, send: () => Promise<{ sent: number; startedAt: number }>) {
  const before = await store.count()
  const { sent, startedAt } = await send()
  await untilVisible(url)
  const elapsed = (performance.now() - startedAt) / 1000
  const arrived = (await store.count()) - before
  if (arrived < sent) throw new Error(`${sent} were accepted, ${arrived} arrived`)
  return arrived / elapsed
}

/** @returns the most memory that the command had, in MiB; null if the system does not tell */
async function runImport({ servers }: Bench, url: string, file: string, round: number): Promise<number | null> {
  const state = join(servers.folder, `import-${round}.json`)
  const args = [CLI, 'import', '--url', url, '--state', state, file]
  const child = servers.spawn('import', process.execPath, args, { SECRET_KEY })
  const ended = once(child.process, 'exit')
  let peak: number | null = null
  while (child.process.exitCode === null && child.process.signalCode === null) {
    peak = (await peakMemory(child.process)) ?? peak
    await Promise.race([wait(POLL_MS), ended])
  }
  if (child.process.exitCode !== 0) throw new Error(`the import failed: ${child.output}`)
  return peak
}

async function writeEvents(file: string, count: number): Promise<void> {
  const real = await realEvents()
  function* texts() {
    let text = ''
    for (let i = 0; i < count; i++) {
      text += `${numbered(real, i)}\n`
      if (i % LINES_TOGETHER === LINES_TOGETHER - 1 || i === count - 1) {
        yield text
        text = ''
      }
    }
  }
  await pipeline(Readable.from(texts()), createWriteStream(file))
}

/** Batch calls with the events that `writeEvents` writes. */
async function batchesOf(count: number): Promise<HttpRequest[]> {
  const real = await realEvents()
  return Array.from({ length: Math.ceil(count / BATCH) }, (_, i) =>
    batchOf(Array.from({ length: BATCH }, (_, j) => numbered(real, i * BATCH + j))),
  )
}

/** The real events again and again, each with its number, so that they differ more than those of `batches`. */
function numbered(real: string[], i: number): string {
  return `${real[i % real.length]?.replace(/\}\}$/, `,"number":${i}}}`)}`
}
