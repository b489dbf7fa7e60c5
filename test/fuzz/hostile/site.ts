import { loadConfig } from '../../../src/config.js'
import { KEY_KINDS, makeKey, storedKey } from '../../../src/keys/keys.js'
import { insertKeys } from '../../../src/store/api-keys.js'
import { openStore } from '../../../src/store/open.js'
import { parseMetrics, type Sample, sumMaxima, sumSamples } from '../../../src/web/views/health/prometheus.js'
import {
  CLI,
  type Scope,
  type Service,
  startClickHouse,
  startRedis,
  startService,
  temporaryFolder,
  until,
} from '../../helper.js'
import { LETTER_BYTES, LETTERS, STORED_EVENTS, STORED_USERS } from './attacks.js'
import { Calls, type Keys } from './calls.js'

export const STORAGES = ['embedded', 'servers'] as const
export type Storage = (typeof STORAGES)[number]

const MIB = 1024 * 1024
/** Smaller than the defaults, because the attacks last seconds instead of minutes. */
const LIMITS = { JOURNAL_MAX_BYTES: String(256 * MIB), MAX_IDEMPOTENCY_KEYS: '20000' }
const REDIS_MAXMEMORY = '512mb'
const VICTIM_EVENTS = 200_000
/** Longer ones are leftovers of an attack, not calls of this moment. */
const OLD_QUERY_S = 2

/** What an attack may leave behind. */
export interface Left {
  /** queries that have run for a while, shortened */
  queries: string[]
  /** mutations that are running or due */
  mutations: number
  /** bytes of waiting entries */
  journal: number
  /** bytes of profiles and sessions in the journal */
  states: number
  /** memory of the service, bytes */
  service: number
  /** memory of ClickHouse, bytes */
  engine: number
}

export interface Site {
  url: string
  victim: Keys
  attacker: Keys
  service: Service
  metrics(): Promise<Sample[]>
  /** CPU time so far, s */
  cpu(): Promise<{ service: number; engine: number }>
  left(): Promise<Left>
}

/** A service with two projects, and a store with data that takes long to read. */
export async function openSite(scope: Scope, storage: Storage): Promise<Site> {
  const stores = await storesOf(scope, storage)
  const env = { ...stores, ...LIMITS, LOG_LEVEL: 'error' }
  // As users start it: without the flags of cli.js, an export makes V8 mark its heap, 15 to 24 ms each time.
  const service = await startService(scope, env, '', [CLI, 'serve'])
  const store = await openStore(loadConfig(stores))
  scope.teardown(() => store.close())
  const [victim, attacker] = [keysOf(), keysOf()]
  const stored = KEY_KINDS.flatMap((kind) => [
    storedKey(victim[kind], { projectId: 'victim', kind }),
    storedKey(attacker[kind], { projectId: 'attacker', kind }),
  ])
  await insertKeys(store.clickhouse, stored, Date.now())
  await fill((query) => store.clickhouse.command(query))
  const calls = new Calls(service.url, 1)
  scope.teardown(() => calls.close())
  for (const { secret: key } of [victim, attacker]) {
    await until('the keys', async () => (await calls.call({ path: '/public/events?limit=1', key })).status === 200)
  }
  const metrics = async () => parseMetrics(await (await fetch(`${service.url}/metrics`)).text())
  const count = async (query: string) => Number((await store.clickhouse.rows<{ n: string }>(query))[0]?.n ?? 0)
  const oldQueries = async () => {
    const rows = await store.clickhouse.rows<{ text: string }>(
      `SELECT concat(toString(round(elapsed)), ' s of ', replaceRegexpAll(substring(query, 1, 200), '\\s+', ' ')) AS text
       FROM system.processes WHERE elapsed > ${OLD_QUERY_S} AND query NOT LIKE '%system.processes%' AND query NOT LIKE '%sleepEachRow%'`,
    )
    return rows.map(({ text }) => text)
  }
  const left = async () => {
    const samples = await metrics()
    return {
      queries: await oldQueries(),
      mutations: await count('SELECT count() AS n FROM system.mutations WHERE NOT is_done'),
      journal: sumMaxima(samples, 'tallyhouse_journal_bytes', 'lane'),
      states: sumMaxima(samples, 'tallyhouse_journal_state_bytes', 'lane'),
      service: sumSamples(samples, 'process_resident_memory_bytes'),
      engine: await count(`SELECT value AS n FROM system.metrics WHERE metric = 'MemoryTracking'`),
    }
  }
  const cpu = async () => {
    const samples = await metrics()
    const [user, system] = ['user', 'system'].map((mode) => sumSamples(samples, `process_cpu_${mode}_seconds_total`))
    const us = await count(`SELECT value AS n FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'`)
    return { service: (user ?? 0) + (system ?? 0), engine: us / 1e6 }
  }
  return { url: service.url, victim, attacker, service, metrics, cpu, left }
}

async function storesOf(scope: Scope, storage: Storage): Promise<Record<string, string>> {
  if (storage === 'embedded') return { DATA_DIR: await temporaryFolder(scope) }
  const redis = await startRedis(scope, ['--maxmemory', REDIS_MAXMEMORY])
  const clickhouse = await startClickHouse(scope, await temporaryFolder(scope))
  return { REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url }
}

function keysOf(): Keys {
  return Object.fromEntries(KEY_KINDS.map((kind) => [kind, makeKey(kind)])) as unknown as Keys
}

/** Adds events of both projects as if they had arrived an hour ago, in the same month. */
async function fill(command: (query: string) => Promise<unknown>): Promise<void> {
  const startMs = Date.now() - 3_600_000
  const events = (project: string, count: number, journal: number) => `
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    WITH
      toUInt64(${startMs} + intDiv(number, 1000)) AS ms,
      bitOr(bitShiftLeft(ms, 16), toUInt64(0x7000)) AS high,
      bitOr(bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftLeft(toUInt64(number % 1000), 32)), toUInt64(${journal})) AS low
    SELECT '${project}', reinterpret(bitOr(bitShiftLeft(toUInt128(low), 64), toUInt128(high)), 'UUID'),
      if(number % 10 = 0, 'b', 'a'), concat('user-', toString(cityHash64(number) % ${STORED_USERS})),
      1760000000000 + number % 40000000, ms,
      concat('{"n":', toString(number), ',"text":"', hex(cityHash64(number, 'x')), repeat('y', 150), '"}'), ''
    FROM numbers(${count})`
  await command(events('victim', VICTIM_EVENTS, 1))
  await command(events('attacker', STORED_EVENTS, 2))
  for (let letter = 0; letter < LETTERS; letter++) {
    await command(`
      INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id)
      SELECT 'attacker', ${letter + 1}, 'rejected', 'It cannot be read.', repeat(repeat('x', 1000), ${LETTER_BYTES / 1000}), ${startMs}, 2`)
  }
}
