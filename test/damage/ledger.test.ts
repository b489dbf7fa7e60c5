import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { command as exportCommand } from '../../src/cli/export/command.js'
import { command as importCommand } from '../../src/cli/import/command.js'
import { command as lanes } from '../../src/cli/lanes/command.js'
import { command } from '../../src/cli/verify/command.js'
import { openWholeStore } from '../../src/cli/whole-store.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { loadConfig } from '../../src/config.js'
import { LedgerWatch } from '../../src/damage/ledger-watch.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { deleteEventsOfUsers, insertEvents } from '../../src/store/events.js'
import { readBases, writeBases } from '../../src/store/ledger.js'
import { runProcess } from '../cli/command-line.js'
import { run } from '../cli/lanes-store.js'
import { clickHouseError, TcpProxy } from '../delivery/tcp-proxy.js'
import {
  type Client,
  fromServer,
  SECRET_KEY,
  STORAGES,
  settingsFor,
  startApp,
  startClickHouse,
  startService,
  temporaryFolder,
  until,
} from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'
import { keepLog, partsOf } from './damaged-store.js'

const batch = (count: number, name = 'e', extra: (i: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, i) => ({ event: name, distinct_id: `u${i}`, ...extra(i) }))

async function send({ call }: Client, events: object[], headers = {}): Promise<string[]> {
  const response = await call('POST', '/public/track/batch', { events }, headers)
  t.equal(response.statusCode, 200, response.body)
  return response.json().ids ?? []
}

/** The report of `verify` on the project, and its exit code. */
async function ledgerOf(env: NodeJS.ProcessEnv, args: string[] = []) {
  const { code, printed } = await run(command, ['--quick', ...args], env)
  return { code, line: ledgerIn(printed), printed }
}

const ledgerIn = (printed: string) => printed.split('\n').find((text) => text.includes('Ledger: default: ')) ?? ''

/**
 * The same while a service of this process runs. An embedded journal must not be opened twice in one process: the second
 * opening would block this thread until the end of a write, which needs this thread.
 */
async function ledgerOfRunning(env: NodeJS.ProcessEnv) {
  if (env.REDIS_URL) return await ledgerOf(env)
  const { code, stdout: printed } = await runProcess(['verify', '--quick'], '', env)
  return { code, line: ledgerIn(printed), printed }
}

const sum = (counts: Partial<Record<'stored' | 'repeated' | 'refused' | 'deleted' | 'waiting', number>>) => {
  const { stored = 0, repeated = 0, refused = 0, deleted = 0, waiting = 0 } = counts
  const received = stored + repeated + refused + deleted + waiting
  return `${received} received = ${stored} stored + ${repeated} repeated + ${refused} refused + ${deleted} deleted + ${waiting} waiting.`
}

/** An entry that ClickHouse cannot read in any form, as if it had been accepted while the service was stopped. */
async function acceptUnreadable(env: NodeJS.ProcessEnv): Promise<void> {
  const store = await openWholeStore(loadConfig(env), { mustExist: true })
  const body = Buffer.from('{"events":[{"event":"a","distinct_id":"u"},{"event":\u0000]}')
  const outcomes = await store.lanes[0]?.journal.write([
    { type: 'append', ...fromServer('default'), count: 2, body, ids: NO_IDS },
  ])
  t.match(outcomes, [{ status: 'done' }])
  await store.close()
}

const isStored = (client: Client, count: number) =>
  until('the events', async () => (await client.events()).length === count)

for (const storage of STORAGES) {
  t.test(`${storage}: the ledger counts every received event exactly once`, async (t) => {
    const env = { ...(await settingsFor(t, storage)), DELETE_USER_EVENTS: 'true' }
    const client = await startApp(t, env)
    const { call, app } = client
    await send(client, batch(100))
    const named = batch(20, 'named', (i) => ({ insert_id: `id-${i}` }))
    await send(client, named)
    await send(client, [...named, ...batch(5, 'more')])
    await send(client, named)
    await send(client, batch(10, 'keyed'), { 'idempotency-key': 'once' })
    await send(client, batch(10, 'keyed'), { 'idempotency-key': 'once' })
    await isStored(client, 135)
    const stored = await ledgerOfRunning(env)
    t.match(stored.line, sum({ stored: 135, repeated: 50 }), `while the service runs: ${stored.printed}`)

    const [first] = await client.events()
    t.equal((await call('DELETE', `/public/events/${first?.eventId}`)).statusCode, 200)
    const erased = (await client.events()).filter(({ distinct_id }) => distinct_id === 'u7').length
    t.equal((await call('DELETE', '/public/users/u7')).statusCode, 200)
    t.equal((await client.events()).length, 134 - erased)
    const counts = { stored: 134 - erased, repeated: 50, deleted: 1 + erased }
    await app.close()
    await acceptUnreadable(env)
    t.match((await ledgerOf(env)).line, sum({ ...counts, waiting: 2 }), 'the service is stopped')
    const again = await startApp(t, env)
    await until(
      'the dead letter',
      async () => (await again.call('GET', '/public/dead-letters')).json().dead_letters?.[0],
    )
    t.match((await ledgerOfRunning(env)).line, sum({ ...counts, refused: 2 }))
    t.match((await again.call('DELETE', '/public/projects/default')).json(), { complete: true })
    const { line, code, printed } = await ledgerOfRunning(env)
    t.match(line, sum({ repeated: 50, deleted: 137 }), 'the whole project')
    t.equal(code, 0, printed)
  })

  t.test(`${storage}: a kill does not change the ledger`, async (t) => {
    const env = await settingsFor(t, storage)
    let accepted = 0
    const service = await startService(t, env)
    const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
    const body = JSON.stringify({ events: batch(50) })
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        for (;;) {
          const response = await fetch(`${service.url}/public/track/batch`, { method: 'POST', headers, body }).catch(
            () => null,
          )
          if (!response) return
          if (response.ok) accepted += 50
        }
      }),
    )
    await until('some load', () => accepted > 500)
    service.process.kill('SIGKILL')
    await service.ended
    await load
    const client = await startApp(t, env)
    await until('all to be stored', async () => (await client.call('GET', '/public/events?limit=1')).statusCode === 200)
    await client.app.close()
    const { line, code, printed } = await ledgerOf(env)
    t.equal(code, 0, printed)
    const [, received, stored] =
      /: (\d+) received = (\d+) stored \+ 0 repeated \+ 0 refused \+ 0 deleted \+ 0 waiting\./.exec(line) ?? []
    t.equal(received, stored, line)
    t.ok(Number(stored) >= accepted, 'everything that was acknowledged')
  })
}

t.test('events whose deletion ClickHouse refuses are counted once', async (t) => {
  const env: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), DELETE_USER_EVENTS: 'true' }
  const proxy = await TcpProxy.open(t, env.CLICKHOUSE_URL ?? '')
  const client = await startApp(t, { ...env, CLICKHOUSE_URL: proxy.url })
  const { call } = client
  await send(client, batch(100))
  await isStored(client, 100)
  const [first] = (await client.events()).filter(({ distinct_id }) => distinct_id !== 'u99')
  const response = await call('POST', '/public/track/batch', { events: batch(10) })
  await isStored(client, 110)
  const ways = [
    { delete: () => call('DELETE', `/public/events/${first?.eventId}`), events: 1 },
    { delete: () => call('DELETE', '/public/users/u99'), events: 1 },
    {
      delete: () => call('POST', '/public/events/delete', { batches: [response.headers['x-batch-ids']] }),
      events: 10,
    },
    { delete: () => call('DELETE', '/public/projects/default'), events: 98 },
  ]
  let deleted = 0
  for (const way of ways) {
    const refused = proxy.answer('DELETE FROM events', clickHouseError(243, 'NOT_ENOUGH_SPACE', 'Cannot reserve 1 MiB'))
    t.not((await way.delete()).statusCode, 200)
    await refused
    t.match((await ledgerOf(env)).line, sum({ stored: 110 - deleted, deleted }), 'refused')
    t.equal((await way.delete()).statusCode, 200)
    deleted += way.events
    t.match((await ledgerOf(env)).line, sum({ stored: 110 - deleted, deleted }), 'repeated')
  }
})

t.test('a deletion spares events that another journal stores at the same time', async (t) => {
  const engine = await startClickHouse(t)
  const [direct, proxy] = [new ClickHouse({ url: engine.url }), await TcpProxy.open(t, engine.url)]
  const delayed = new ClickHouse({ url: proxy.url })
  t.teardown(() => Promise.all([direct.close(), delayed.close()]))
  await migrate(direct)
  const store = async (journalId: number, ms: number) => {
    const entry = {
      position: BigInt(ms) << 16n,
      kind: 'events',
      projectId: 'p',
      count: 1,
      receivedAt: ms,
      body: Buffer.from('{"events":[{"event":"e","distinct_id":"ada"}]}'),
    } as const
    await insertEvents(direct, journalId, [entry], `${journalId} ${ms}`, AbortSignal.timeout(60_000))
  }
  const start = Date.UTC(2026, 3, 1)
  await store(1, start)
  await store(2, start + 1)
  await store(1, start + 10)
  const { held, release } = proxy.hold('DELETE FROM events')
  const deleting = deleteEventsOfUsers(delayed, 'p', ['ada'])
  await held
  await store(2, start + 5)
  await store(1, start + 15)
  await release()
  await deleting
  const left = await direct.rows(
    'SELECT toUInt32(bitAnd(toUInt128(event_id), 0xffffffff)) AS journal, received_at AS at FROM events ORDER BY at',
  )
  t.strictSame(left, [
    { journal: 2, at: String(start + 5) },
    { journal: 1, at: String(start + 15) },
  ])
  const counted = await direct.rows('SELECT project_id AS project, toUInt32(count) AS count FROM deleted_events FINAL')
  t.strictSame(counted, [{ project: 'p', count: 3 }])
})

t.test('the ledger reports a loss even if no part was recorded', async (t) => {
  const env = await settingsFor(t, 'embedded')
  const client = await startApp(t, env)
  for (let part = 1; part < 4; part++) {
    await send(client, batch(30))
    await isStored(client, 30 * part)
  }
  await client.app.close()
  const [part] = await partsOf(join(env.DATA_DIR ?? '', 'clickhouse'))
  await rm(part?.path ?? '', { recursive: true })
  const store = await openWholeStore(loadConfig(env), { mustExist: true })
  const { log, lines } = keepLog()
  const journals = store.lanes.map(({ journal }) => journal)
  const watch = new LedgerWatch({ shards: store.shards, journals, layout: 1, log, firstMs: 0 })
  watch.start()
  await until('the count', () => watch.missing > 0)
  t.match(watch.ledgers, [{ project: 'default', received: 90, missing: part?.rows }])
  t.match(lines, [{ level: 50, project: 'default', missing: part?.rows, msg: /^Events are missing: default: 90/ }])
  await watch.close()
  await store.close()
  const lost = await ledgerOf(env)
  t.equal(lost.code, 1)
  t.match(lost.line, `WRONG: Ledger: default: 90 received = ${90 - (part?.rows ?? 0)} stored`)
  t.match(lost.line, `+ ${part?.rows} missing. See`)
  const accepted = await ledgerOf(env, ['--accept'])
  t.equal(accepted.code, 0, accepted.printed)
  const after = await ledgerOf(env)
  t.equal(after.code, 0)
  t.match(
    after.line,
    /: 60 received = 60 stored \+ 0 repeated \+ 0 refused \+ 0 deleted \+ 0 waiting, counted since 20/,
  )
})

t.test('a restarted count replaces the earlier one although the clock was set back', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  await writeBases(clickhouse, 1, new Map([['p', { carried: 1, since: 20_000 }]]), 20_000)
  const bases = new Map([['p', { carried: 2, since: 10_000 }]])
  await writeBases(clickhouse, 1, bases, 10_000)
  t.strictSame(await readBases(clickhouse, 1), bases)
})

t.test('a change of the lanes keeps the ledger', async (t) => {
  const env = await settingsFor(t, 'servers')
  const count = async (env: NodeJS.ProcessEnv, stored: number) => {
    const client = await startApp(t, env)
    await send(client, batch(40))
    await isStored(client, stored)
    await client.app.close()
    const { code, line, printed } = await ledgerOf(env)
    t.equal(code, 0, printed)
    t.match(line, sum({ stored }))
  }
  await count(env, 40)
  for (const [i, number] of ['3', '1'].entries()) {
    const next = { ...env, LANES: number }
    t.equal((await run(lanes, ['set', number], next)).code, 0)
    await count(next, 40 * (i + 2))
  }
})

t.test('the ledger of an imported store begins with the import', async (t) => {
  const from = await settingsFor(t, 'embedded')
  const client = await startApp(t, from)
  await send(client, batch(40))
  await isStored(client, 40)
  await client.app.close()
  const folder = join(await temporaryFolder(t), 'all')
  t.equal((await run(exportCommand, ['--all', folder], from)).code, 0)
  const to = await settingsFor(t, 'servers')
  const imported = await run(importCommand, ['--all', folder], to)
  t.equal(imported.code, 0, imported.noted)
  const { code, line } = await ledgerOf(to)
  t.equal(code, 0)
  t.match(line, /: 40 received = 40 stored \+ 0 repeated \+ 0 refused \+ 0 deleted \+ 0 waiting, counted since 20/)
})
