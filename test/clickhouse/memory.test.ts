import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { isMemoryError, isServerOutOfMemory } from '../../src/clickhouse/errors.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { Questions } from '../../src/questions/run.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp, startClickHouse, until } from '../helper.js'

/** Memory of ClickHouse; one page of the profiles takes more. */
const SERVER_BYTES = 1_000_000_000
const PROFILES = 260
const READS = 2
/** The other project calls all the time, but leaves most of the CPU time to the reads. */
const VICTIM_PAUSE_MS = 200

t.test('ClickHouse refuses only the query that fills its memory', async (t) => {
  const folder = join(await dataFolder(t), 'clickhouse')
  await mkdir(join(folder, 'conf.d'), { recursive: true })
  const limit = `<clickhouse><max_server_memory_usage>${SERVER_BYTES}</max_server_memory_usage></clickhouse>`
  await writeFile(join(folder, 'conf.d', 'memory.xml'), limit)
  const { url } = await startClickHouse(t, folder)
  const settings = {
    PUBLIC_API_KEY: PUBLIC_KEY,
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    CLICKHOUSE_URL: url,
    QUERY_TIMEOUT: '600',
    FACTS: 'off',
  }
  const { app, call, config } = await startApp(
    t,
    { ...settings, DATA_DIR: await dataFolder(t) },
    { keysRefreshMs: 200 },
  )
  const other = { 'x-api-key': makeKey('secret') }
  const store = await openStore(config)
  const key = storedKey(other['x-api-key'], { projectId: 'other', kind: 'secret' })
  await insertKeys(store.clickhouse, [key], Date.now())
  await store.close()
  const clickhouse = new ClickHouse({ url })
  t.teardown(() => clickhouse.close())
  await clickhouse.command(
    `INSERT INTO profiles (project_id, distinct_id, properties, version, created_at, updated_at)
     SELECT 'default', concat('p', toString(number)), concat('{"text":"', repeat('x', 1000000), '"}'), number + 1, 1, 1
     FROM numbers(${PROFILES})`,
    {},
    { max_block_size: '16', min_insert_block_size_bytes: '50000000' },
  )
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
     SELECT 'other', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', toString(number),
       1760000000000 + number, 0, '{}', '' FROM numbers(300000)`,
  )
  await until('the key', async () => (await call('GET', '/public/users', undefined, other)).statusCode === 200)

  let isOver = false
  const statuses = Array.from({ length: READS }, async () => {
    const { statusCode, body } = await call('GET', '/public/users?limit=1000')
    return statusCode === 200 ? 200 : `${statusCode} ${JSON.parse(body).code}`
  })
  const victim = async (ask: () => Promise<{ statusCode: number; body: string }>) => {
    let count = 0
    for (; !isOver || count === 0; count++) {
      const { statusCode, body } = await ask()
      t.equal(statusCode, 200, body.slice(0, 300))
      await wait(VICTIM_PAUSE_MS)
    }
    return count
  }
  // Counts users, which takes some memory.
  const question = { kind: 'series', series: [{ event: 'a', metric: 'users' }], from: '2025-10-09', to: '2025-10-10' }
  const asked = [
    victim(() => call('POST', '/public/query', question, other)),
    victim(() => call('POST', '/public/track', { event: 'b', distinct_id: 'u' }, other)),
    victim(() => call('GET', '/public/events?order=desc&limit=10', undefined, other)),
  ]
  const answers = await Promise.all(statuses)
  isOver = true
  t.comment(`${await Promise.all(asked)} calls of the other project, with ${answers}`)
  // On a busy machine, a read may also reach its time limit.
  t.ok(answers.every((answer) => [200, '503 overloaded', '503 unavailable'].includes(answer)))
  t.ok(answers.includes('503 overloaded'), 'the memory was short')
  const { body } = await app.inject('/metrics')
  t.match(body, /tallyhouse_limit_refusals_total\{limit="reads",project="default",kind="secret"\}/)
  await until('the memory to be free', async () => {
    const [row] = await clickhouse.rows<{ n: string }>(
      `SELECT count() AS n FROM system.processes WHERE query LIKE '%distinct_id%' AND query NOT LIKE '%system.processes%'`,
    )
    return row?.n === '0'
  })

  // Each event has the profile of its user, with a text of 1 MB.
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
     SELECT 'default', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a',
       concat('p', toString(number)), 1760000000000 + number, 0, '{}', '' FROM numbers(${PROFILES})`,
  )
  const tooLarge = await call('POST', '/public/query', { ...question, breakdown: ['user.text'] })
  t.match(tooLarge.json(), { code: 'query_too_large', error: `${Math.round(SERVER_BYTES / 2 ** 21)} MiB` })

  const hoard = `SELECT groupArray(repeat('x', 1000000 + number)) FROM numbers(2000) FORMAT Null`
  const failure = (max_memory_usage: string) =>
    clickhouse.command(hoard, {}, { max_memory_usage }).then(
      () => null,
      (error: unknown) => error,
    )
  t.ok(
    isServerOutOfMemory(await failure('0')),
    'so that a question for which others leave no memory is not called too large',
  )
  const ownLimit = await failure('100000000')
  t.ok(isMemoryError(ownLimit) && !isServerOutOfMemory(ownLimit), 'its own limit')
})

t.test('the memory of a question follows that of ClickHouse', async (t) => {
  const start = async (bytes: number) => {
    const folder = join(await dataFolder(t), 'clickhouse')
    await mkdir(join(folder, 'conf.d'), { recursive: true })
    const limit = `<clickhouse><max_server_memory_usage>${bytes}</max_server_memory_usage></clickhouse>`
    await writeFile(join(folder, 'conf.d', 'memory.xml'), limit)
    const clickhouse = new ClickHouse({ url: (await startClickHouse(t, folder)).url })
    t.teardown(() => clickhouse.close())
    await migrate(clickhouse)
    return Shards.of(clickhouse)
  }
  let current = await start(2_000_000_000)
  const shards = new Proxy(current, {
    get(_, name) {
      const value: unknown = Reflect.get(current, name, current)
      return typeof value === 'function' ? value.bind(current) : value
    },
  })
  const questions = new Questions({
    shards,
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: Number.MAX_SAFE_INTEGER },
    settingsMs: 0,
  })
  const sql = "SELECT toFloat64(getSetting('max_memory_usage')) AS bytes"
  const readMemory = async () => {
    const [row] = await questions.read('a', () => ({ sql, parameters: {} }))
    return (row as { bytes: number }).bytes
  }
  t.equal(await readMemory(), 1_000_000_000)
  // As if it had been started again.
  current = await start(3_000_000_000)
  t.equal(await readMemory(), 1_500_000_000)
})
