import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../../src/cli/verify/command.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { requestFacts } from '../../src/store/event-changes.js'
import { run } from '../cli/lanes-store.js'
import {
  dataFolder,
  PUBLIC_KEY,
  SECRET_KEY,
  startApp,
  startClickHouse,
  startRedis,
  startService,
  temporaryFolder,
  until,
} from '../helper.js'
import { ACCIDENTS, damage, onEngine, partsOf, readParts, untilRecorded } from './damaged-store.js'

const EVENTS = 40

const settings = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', LOG_LEVEL: 'silent' }

/** The folder of a stopped service with 80 events in two parts, to copy. */
const filled = fill()

async function fill(): Promise<string> {
  const folder = await dataFolder(t)
  let url = ''
  const onClickHouse = (found: string) => {
    url = found
  }
  const { app, call, events } = await startApp(t, { ...settings, DATA_DIR: folder }, { onClickHouse })
  for (const part of [1, 2]) {
    const events_ = Array.from({ length: EVENTS }, (_, i) => ({ event: `e${part}`, distinct_id: `u${i}` }))
    await call('POST', '/public/track/batch', { events: events_ })
    await until('the events', async () => (await events()).length === EVENTS * part)
  }
  await untilRecorded(url)
  await app.close()
  return folder
}

/** The settings of a stopped service, with its engine running, so that a command does not have to start it. */
async function withEngine(t: Test, { env, engine }: { env: NodeJS.ProcessEnv; engine: string }) {
  const { url } = await startClickHouse(t, engine)
  return { url, env: { ...env, CLICKHOUSE_URL: url } }
}

/** The settings of a stopped service with 80 events in two parts, and the folder of its engine. */
async function stopped(t: Test): Promise<{ env: NodeJS.ProcessEnv; engine: string }> {
  const folder = await temporaryFolder(t)
  await cp(await filled, folder, { recursive: true, verbatimSymlinks: true })
  return { env: { ...settings, DATA_DIR: folder }, engine: join(folder, 'clickhouse') }
}

t.test('verify passes for a sound store, and says what was checked', async (t) => {
  // ClickHouse may merge the parts first, and the counts of new parts are not recorded yet.
  const { code, printed } = await until('counts of the parts that were noted', async () => {
    const { env } = await stopped(t)
    const ended = await run(command, [], env)
    return /Counts: default: events of \d{4}-\d\d: 80, as recorded/.test(ended.printed) && ended
  })
  t.equal(code, 0, printed)
  t.match(printed, /The journal can be read; 0 entries wait/)
  t.match(printed, /Checksums: \d+ parts, 0 damaged/)
  t.match(printed, /No problems found\.\n$/)
})

t.test(
  'verify says what it could not compare, because it was not recorded or there are too many projects',
  async (t) => {
    const { env, url } = await withEngine(t, await stopped(t))
    await run(command, ['--quick'], env)
    const clickhouse = new ClickHouse({ url })
    t.teardown(() => clickhouse.close())
    const insert = async (project: string, count: number) => {
      const columns = 'project_id, event_id, event, distinct_id, timestamp, received_at, properties'
      const values = `${project}, generateUUIDv7(), 'e', 'u', toUnixTimestamp64Milli(now64(3)), 0, '{}'`
      await clickhouse.command(`INSERT INTO events (${columns}) SELECT ${values} FROM numbers(${count})`)
    }
    await insert("'imported'", 1000)
    // If ClickHouse has merged them, the new part also has the earlier events.
    const { printed } = await run(command, ['--quick'], env)
    t.match(
      printed,
      /Counts: not compared: 1.0[048]0 events in 1 new part, recorded just now\. The next run compares them\./,
    )
    // Another merge makes another part.
    await until('all to be compared', async () => {
      const { printed } = await run(command, ['--quick'], env)
      return !printed.includes('not compared') && /Counts: imported: events of .*: 1000, as recorded\./.test(printed)
    })
    await insert('toString(number)', 51)
    await run(command, ['--quick'], env)
    // It may have been merged with the others.
    const { printed: many } = await run(command, ['--quick'], env)
    t.match(many, /Counts: not compared: \d+ events in \d parts?, because the rows of some of their projects/)
  },
)

t.test('verify fails for lost settings, counts of usage and exclusions from facts', async (t) => {
  const { env, engine } = await stopped(t)
  const { call, app } = await startApp(t, env)
  await call('PATCH', '/public/project', { keep: { events: '30d' } })
  await app.close()
  await onEngine(engine, (shards) => requestFacts(shards.first, 'leave_out', 'default'))
  // The service may have ended before it recorded the parts.
  await run(command, ['--quick'], env)
  const tables = "table IN ('projects', 'project_usage', 'facts_left_out')"
  const parts = await onEngine(engine, (shards) => readParts(shards, tables))
  t.equal(new Set(parts.map(({ table }) => table)).size, 3)
  for (const part of parts) await ACCIDENTS[0]?.[1](part)
  const { code, printed } = await run(command, ['--quick'], env)
  t.equal(code, 1)
  for (const what of ['1 versions of settings', 'counts of usage', '1 exclusions from facts']) {
    t.match(printed, new RegExp(`WRONG: The store has lost the part .*${what} of the project default`))
  }
})

t.test('verify says what to do about a Redis that it may not use or cannot reach', async (t) => {
  const { env } = await withEngine(t, await stopped(t))
  const redis = await startRedis(t, ['--requirepass', 'right', '--user', 'reader', 'on', '>right', '~*', '+@read'])
  const verify = async (login: string) => {
    const { code, printed } = await run(command, ['--quick'], {
      ...env,
      REDIS_URL: redis.url.replace('//', `//${login}`),
    })
    t.equal(code, 1)
    return printed
  }
  t.match(
    await verify(':wrong@'),
    /WRONG: The journal: Redis refuses the login .*"WRONGPASS .*Correct its user and pass/,
  )
  t.match(await verify('reader:right@'), /WRONG: The journal: .*"NOPERM .*~\* &\* \+@all/)
  await redis.kill()
  t.match(await verify(':right@'), /WRONG: The journal: Redis cannot be reached or used\. Check REDIS_URL\./)
})

t.test('verify does not call a journal missing that it cannot look for', async (t) => {
  const { env } = await withEngine(t, await stopped(t))
  const file = join(await temporaryFolder(t), 'file')
  await writeFile(file, '')
  const { printed } = await run(command, ['--quick'], { ...env, DATA_DIR: file })
  t.match(printed, /WRONG: The journal: .*file\/journal cannot exist/)
  const { printed: ofNone } = await run(command, ['--quick'], { ...env, DATA_DIR: `${file}-missing` })
  t.match(ofNone, /WRONG: The journal is missing/)
})

t.test('verify neither compares nor accepts the ledger with the settings of fewer lanes', async (t) => {
  const env = { ...settings, DATA_DIR: await dataFolder(t), LANES: '2' }
  const { app, call, events } = await startApp(t, env)
  for (let key = 0; key < 8; key++) {
    const event = { event: 'e', distinct_id: 'u' }
    await call('POST', '/public/track', event, { 'idempotency-key': `in some lane ${key}` })
  }
  await until('the events', async () => (await events()).length === 8)
  await app.close()
  for (const option of [[], ['--accept']]) {
    const { code, printed } = await run(command, ['--quick', ...option], { ...env, LANES: '1' })
    t.equal(code, 1, printed)
    t.match(printed, /WRONG: The ledger was not compared: the store has 2 lanes on 1 shard, but .* 1 lane on 1 shard/)
    t.notMatch(printed, /Ledger: /)
  }
  const { code, printed } = await run(command, ['--quick'], env)
  t.equal(code, 0, printed)
  t.match(printed, /Ledger: default: 8 received = 8 stored .* 0 waiting\.\n/)
})

t.test('verify fails for a lost part until it is accepted, and finds a damaged file with its checksum', async (t) => {
  const before = await stopped(t)
  const [part, other] = await partsOf(before.engine)
  if (!part || !other) throw new Error('there are not two parts')
  await ACCIDENTS[0]?.[1](part)
  const { env } = await withEngine(t, before)
  const { code, printed } = await run(command, ['--quick'], env)
  t.equal(code, 1)
  t.match(printed, new RegExp(`WRONG: The store has lost the part ${part.name}.* 40 events .*project default`))
  t.equal((await run(command, ['--quick'], env)).code, 1, 'and again')
  t.equal((await run(command, ['--quick', '--accept'], env)).code, 0)
  await damage(join(other.path, 'skp_idx_by_timestamp.idx2'))
  t.equal((await run(command, ['--quick'], env)).code, 0)
  const full = await run(command, [], env)
  t.equal(full.code, 1)
  const damaged = `WRONG: The part ${other.name} of events is damaged, with events of \\d{4}-\\d\\d`
  t.match(full.printed, new RegExp(damaged))
})

t.test('verify names a damaged database of the journal, and rebuilds it from the log', async (t) => {
  const { env } = await stopped(t)
  await sendLate(t, env)
  const file = join(env.DATA_DIR ?? '', 'journal', 'data.mdb')
  await writeFile(file, (await readFile(file)).fill(0, 0, 100))
  await t.rejects(startApp(t, env), /data\.mdb is damaged.*--rebuild-journal/)
  const { code, printed } = await run(command, ['--quick'], env)
  t.equal(code, 1)
  t.match(printed, /WRONG: The journal: .*data\.mdb is damaged/)
  const rebuilt = await run(command, ['--rebuild-journal'], env)
  t.equal(rebuilt.code, 0, rebuilt.noted)
  t.match(rebuilt.noted, /recreated.*data\.mdb\.damaged-/)
  const { call, events } = await startApp(t, env)
  t.equal((await events()).length, 2 * EVENTS + 1, 'every accepted event is there once')
  t.equal((await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode, 200)
  await until('the event', async () => (await events()).length === 2 * EVENTS + 2)
})

t.test('a database of the journal that is gone is rebuilt from the log', async (t) => {
  const { env } = await stopped(t)
  await sendLate(t, env)
  await rm(join(env.DATA_DIR ?? '', 'journal', 'data.mdb'))
  await t.rejects(startApp(t, env), /no data\.mdb.*--rebuild-journal/)
  const rebuilt = await run(command, ['--rebuild-journal'], env)
  t.equal(rebuilt.code, 0, rebuilt.noted)
  const { events } = await startApp(t, env)
  t.equal((await events()).length, 2 * EVENTS + 1, 'every accepted event is there once')
})

/** Starts a service, sends an event, and kills the service. */
async function sendLate(t: Test, env: NodeJS.ProcessEnv): Promise<void> {
  const service = await startService(t, env)
  const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body: JSON.stringify({ event: 'late', distinct_id: 'u' }) }
  t.equal((await fetch(`${service.url}/public/track`, init)).status, 200)
  service.process.kill('SIGKILL')
  await service.ended
}
