import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { lockFile } from '../../src/lib/file-lock.js'
import { findUnknownTables, readStoreId } from '../../src/store/dump.js'
import { readLeftOut, requestFacts } from '../../src/store/event-changes.js'
import { openStore } from '../../src/store/open.js'
import { dataFolder, SECRET_KEY, settingsFor, startApp, startClickHouse, temporaryFolder } from '../helper.js'
import { runCommand } from './command-line.js'

function all(name: 'export' | 'import', folder: string, env: NodeJS.ProcessEnv) {
  return runCommand([name, '--all', folder], '', env)
}

t.test('export --all and import --all explain what they refuse', async (t) => {
  const { url } = await startClickHouse(t, await temporaryFolder(t))
  const [data, folder] = [await temporaryFolder(t), await temporaryFolder(t)]
  const env = { CLICKHOUSE_URL: url, DATA_DIR: data, FACTS: 'off' }
  t.match(await all('export', folder, env), { code: 1, stderr: /store was not found: database .* of http:\/\/127/ })
  t.match(await all('export', folder, { DATA_DIR: join(data, 'none') }), { code: 1, stderr: /no store in/ })
  t.match(await all('import', folder, env), { code: 1, stderr: /has no manifest/ })
  const start = async () => await startApp(t, { ...env, LOG_LEVEL: 'silent', SECRET_KEY })
  const app = await start()
  /** Runs a command while another process, for which this one stands, holds the lock of the file. */
  const meanwhile = async (name: 'export' | 'import', file: string) => {
    const lock = await lockFile(join(folder, `${file}.lock`))
    try {
      return await all(name, folder, env)
    } finally {
      lock?.release()
    }
  }
  await app.call('PATCH', '/public/project', { name: 'Shop' })
  await app.app.close()
  const { clickhouse, close } = await openStore(app.config)
  t.strictSame(await findUnknownTables(clickhouse), [], 'every table of the schema is known to export --all')
  const id = await readStoreId(clickhouse)
  await close()
  t.match(await meanwhile('export', 'manifest.json'), { code: 1, stderr: /Another process is exporting to/ })
  t.match(await all('export', folder, env), { code: 0, stderr: /0 events/ }, 'a store that is empty')
  t.match(await all('export', folder, env), { code: 0, stderr: /was exported at/ })
  t.match(await all('export', data, env), { code: 1, stderr: /is not empty/ })
  t.match(await meanwhile('import', `imported-${id.slice(0, 8)}.json`), {
    code: 1,
    stderr: /Another process is importing/,
  })
  const later = await start()
  await later.call('PATCH', '/public/project', { name: 'Shops' })
  await later.app.close()
  t.match(await all('export', folder, env), { code: 1, stderr: /has changed since the export/ })
  const found = /already contains 1 projects with settings\. import --all needs an empty store/
  t.match(await all('import', folder, env), { code: 1, stderr: found }, 'it would not match at the end')
})

t.test('export --all and import --all move everything, and events keep their ids', async (t) => {
  const [source, destination, folder] = [await dataFolder(t), await dataFolder(t), await temporaryFolder(t)]
  const start = async (dataDir: string) =>
    await startApp(t, { DATA_DIR: dataDir, LOG_LEVEL: 'silent', SECRET_KEY, FACTS: 'off' })
  const sent = Array.from({ length: 20 }, (_, i) => {
    const ids = { insert_id: `order "${i}"`, ...(i % 3 > 0 && { session_id: `visit "${i % 3}"\n` }) }
    const context = i % 2 > 0 && { context: { browser: `B "${i % 5}"`, country: 'AT', bot: true } }
    return { event: 'paid', distinct_id: `user/\u2028${i}`, ...ids, ...context, properties: { i } }
  })
  const from = await start(source)
  await from.call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { plan: 'pro' } })
  await from.call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'visitor/7' })
  const found = await from.call('GET', '/public/users/visitor%2F7/export')
  t.match(found.body, '"alias":"visitor/7"')
  t.equal((await from.call('POST', '/public/track/batch', { events: sent })).statusCode, 200)
  const quotas = { events_per_month: { limit: 23, mode: 'hard' } }
  await from.call('PATCH', '/public/project', { quotas })
  const before = (await from.call('GET', '/public/events?limit=100')).json()
  t.match(before, { events: { length: sent.length }, pending: 0 })
  await from.app.close()
  const store = await openStore(from.config)
  await requestFacts(store.shards.first, 'leave_out', 'small')
  await store.close()
  t.match(await all('export', folder, { DATA_DIR: source }), { code: 0 })

  await t.test('into a store that has keys', async (t) => {
    const earlier = await start(destination)
    t.equal((await earlier.call('POST', '/public/keys', { kind: 'read' })).statusCode, 200)
    t.equal((await earlier.call('GET', '/public/usage')).statusCode, 200)
    await earlier.app.close()
    t.match(await all('import', folder, { DATA_DIR: destination }), { code: 0 })
    const to = await start(destination)
    t.equal((await to.call('GET', '/public/users/visitor%2F7/export')).body, found.body)
    t.equal((await to.call('POST', '/public/users/alias', { distinct_id: 'bob', alias: 'visitor/7' })).statusCode, 409)
    t.match((await to.call('GET', '/public/usage')).json(), {
      quotas: [{ name: 'events_per_month', limit: 23, used: 20 }],
    })
    t.strictSame((await to.call('GET', '/public/events?limit=100')).json().events, before.events)
    const events = Array(4).fill({ event: 'e', distinct_id: 'b' })
    t.equal((await to.call('POST', '/public/track/batch', { events })).json().code, 'quota_exceeded')
    const { entries } = (await to.call('GET', '/public/audit')).json()
    t.match(entries.map(({ action }: { action: string }) => action).sort(), ['key_created', 'project_changed'])
  })

  await t.test('into several lanes, which know the insert_ids', async (t) => {
    const target = { ...(await settingsFor(t, 'lanes')), FACTS: 'off' }
    t.match(await all('import', folder, target), { code: 0 })
    const to = await startApp(t, target)
    const { shards, close } = await openStore(to.config)
    for (const { clickhouse } of shards.all) t.strictSame([...(await readLeftOut(clickhouse))], ['small'])
    await close()
    t.strictSame((await to.call('GET', '/public/events?limit=100')).json().events, before.events)
    t.equal((await to.call('PATCH', '/public/project', { quotas: { events_per_month: null } })).statusCode, 200)
    const more = { ...sent[0], insert_id: 'another order' }
    t.equal((await to.call('POST', '/public/track/batch', { events: [...sent, more] })).statusCode, 200)
    const { events } = (await to.call('GET', '/public/events?limit=100')).json()
    t.equal(events.length, sent.length + 1, 'repeated events are not stored twice')
  })
})

t.test('import --all accepts a folder with fewer columns, and refuses one with more', async (t) => {
  const [from, to] = [await startClickHouse(t), await startClickHouse(t)]
  const [data, folder] = [await temporaryFolder(t), await temporaryFolder(t)]
  const env = { LOG_LEVEL: 'silent', SECRET_KEY, FACTS: 'off' }
  const source = await startApp(t, { ...env, CLICKHOUSE_URL: from.url, DATA_DIR: join(data, 'from') })
  await source.call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { plan: 'pro' } })
  await source.call('POST', '/public/track', { event: 'paid', distinct_id: 'ada' })
  t.equal((await source.call('GET', '/public/events')).json().events.length, 1)
  await source.app.close()
  const clickhouse = new ClickHouse({ url: from.url })
  t.teardown(() => clickhouse.close())
  await clickhouse.command('ALTER TABLE profiles DROP COLUMN times')
  await clickhouse.command('ALTER TABLE events ADD COLUMN weather String')
  const files = (name: string) => ({ CLICKHOUSE_URL: name === 'from' ? from.url : to.url, DATA_DIR: join(data, name) })
  t.match(await all('export', folder, files('from')), { code: 0 })
  t.match(await all('import', folder, files('to')), { code: 1, stderr: /columns of events .* not know: weather\./ })

  await clickhouse.command('ALTER TABLE events DROP COLUMN weather')
  await rm(folder, { recursive: true })
  t.match(await all('export', folder, files('from')), { code: 0 })
  t.match(await all('import', folder, files('to')), { code: 0 })
  const target = await startApp(t, { ...env, ...files('to') })
  t.match((await target.call('GET', '/public/users/ada/export')).body, '"plan":"pro"')
  t.equal((await target.call('GET', '/public/events')).json().events.length, 1)
})
