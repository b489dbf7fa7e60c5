import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { type Bench, type Benchmark, eachRound } from '../benchmark.js'
import { SECRET_KEY } from '../servers.js'
import { Store } from '../store.js'
import { fillYear } from '../year.js'

const EVENTS = 20_000_000
const LARGE_EVENTS = 100_000_000

/** The embedded service, from the start of its process until it has accepted an event: with many events stored, and with none. */
export const start: Benchmark = async (bench) => {
  const { servers } = bench
  const count = bench.events(bench.isLarge ? LARGE_EVENTS : EVENTS)
  const full = await mkdtemp(join(servers.folder, 'full-'))
  const empty = await mkdtemp(join(servers.folder, 'empty-'))
  // They create the tables, and load the program into the page cache.
  await untilAccepted(bench, full)
  await untilAccepted(bench, empty)
  const log = { info() {}, warn: console.error, error: console.error }
  const engine = await startEmbeddedClickHouse({ path: join(full, 'clickhouse'), log })
  await fillYear(new Store(engine.url), count)
  await engine.close()

  const figure = bench.figure(`until an event is accepted, ${count / 1e6} million stored`, {
    unit: 'ms',
    over: 'an empty store',
    goal: { of: 'value', target: 3_000, stretch: 2_000 },
  })
  await eachRound(bench, null, async () => {
    const limit = await untilAccepted(bench, empty)
    figure(await untilAccepted(bench, full), limit)
  })
}

/** @returns ms */
async function untilAccepted({ servers }: Bench, dataDir: string): Promise<number> {
  const inner = await servers.inner()
  const startedAt = performance.now()
  const { url } = await inner.embedded(dataDir)
  const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
  const body = '{"event":"started","distinct_id":"ada","properties":{}}'
  const response = await fetch(`${url}/public/track`, { method: 'POST', headers, body })
  if (!response.ok) throw new Error(`the first event was answered with ${response.status}`)
  const ms = performance.now() - startedAt
  await inner.close()
  return ms
}
