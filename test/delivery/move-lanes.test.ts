import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { command as deadLetters } from '../../src/cli/dead-letters.js'
import { exportAll } from '../../src/cli/export/export-all.js'
import { importAll } from '../../src/cli/import/import-all.js'
import { openWholeStore } from '../../src/cli/whole-store.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import { storedKey } from '../../src/keys/keys.js'
import { parseEventId } from '../../src/model/event-id.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { fill, ioOf, perShard, run, settingsOn, USERS } from '../cli/lanes-store.js'
import { type Client, startApp, temporaryFolder } from '../helper.js'
import { startNodes } from '../nodes.js'

const nodes = await startNodes(t, 3)

/** Moves a whole store, interrupted after each of the given numbers of files, and resumed. */
async function transfer(move: typeof exportAll, folder: string, env: NodeJS.ProcessEnv, breaks: number[]) {
  for (const after of breaks) {
    const stop = new AbortController()
    const { io, end } = ioOf(env, stop.signal)
    const isDone = async () => {
      const name = move === exportAll ? /^manifest\.json$/ : /^imported-.*\.json$/
      return (await countDone(folder, name)) >= after
    }
    const moving = move(folder, loadConfig(env), io)
    while (!(await isDone())) await new Promise((resolve) => setImmediate(resolve))
    stop.abort()
    t.equal(await moving, false, `interrupted after ${after} files`)
    await end()
  }
  const { io, end } = ioOf(env)
  t.equal(await move(folder, loadConfig(env), io), true)
  return (await end()).noted
}

async function countDone(folder: string, name: RegExp): Promise<number> {
  const file = (await readdir(folder).catch(() => [])).find((file) => name.test(file))
  if (!file) return 0
  const state = JSON.parse(await readFile(join(folder, file), 'utf8'))
  return state.chunks?.length ?? state.done
}

/** Everything that the API returns about the stored data, byte for byte. */
async function snapshot({ call }: Client): Promise<string[]> {
  const urls = ['/events?limit=10000', '/users?limit=100', ...USERS.slice(0, 9).map((user) => `/users/${user}/export`)]
  const answers = await Promise.all(urls.map((url) => call('GET', `/public${url}`)))
  return answers.map(({ body, statusCode }) => `${statusCode} ${body}`)
}

/** Adds what a change of the layout leaves: earlier versions on the previous shard of a lane. */
async function leaveOldVersions(shards: Shards): Promise<void> {
  const columns = 'project_id, distinct_id, properties, created_at, updated_at, version, is_deleted'
  await shards.each(async ({ clickhouse }) => {
    const names = USERS.slice(0, 10).map((user) => `('default', '${user}', '{"old":true}', 1, 1, 1, 0)`)
    await clickhouse.command(`INSERT INTO profiles (${columns}) VALUES ${names.join()}`)
  })
}

async function leaveLetters(shards: Shards): Promise<void> {
  for (const { number, clickhouse } of shards.all) {
    const body = Buffer.from(`{"events":[{"event":"letter ${number}","distinct_id":"ada"}]}`)
    const entry = {
      position: BigInt(7 + number),
      projectId: 'default',
      kind: 'events',
      count: 1,
      receivedAt: 1,
    } as const
    await insertDeadLetter(clickhouse, 1, { ...entry, body }, 'a reason', `letter ${number}`)
  }
}

/** Leaves an event in the journal of each lane of a stopped service. */
async function leaveWaiting(env: NodeJS.ProcessEnv): Promise<void> {
  const { lanes, close } = await openWholeStore(loadConfig(env), { mustExist: true })
  for (const { number, journal } of lanes) {
    const body = Buffer.from(`{"events":[{"event":"late ${number}","distinct_id":"ada"}]}`)
    await journal.write([{ type: 'append', keyClass: 'secret', projectId: 'default', count: 1, body, ids: NO_IDS }])
  }
  await close()
}

t.test('a store moves to one with other lanes and shards, exactly once', async (t) => {
  const env = await settingsOn(t, nodes, { database: 'moving', lanes: 3, shards: 2 })
  const client = await startApp(t, env)
  await fill(client)
  const source = await openStore(client.config)
  const shop = storedKey('sk_shop_test_secret_key', { projectId: 'shop', kind: 'secret' })
  await insertKeys(source.shards.first, [shop], Date.now())
  await client.events()
  await client.app.close()
  await leaveOldVersions(source.shards)
  await leaveLetters(source.shards)
  const replay = await run(deadLetters, ['replay', '0-8'], env)
  t.match(replay, { code: 0, printed: '1 stored, 0 still refused.\n' })
  await source.close()
  await leaveWaiting(env)

  const folder = join(await temporaryFolder(t), 'moved')
  t.match(
    await transfer(exportAll, folder, env, [1, 4]),
    /: 124 events, 19 profiles, 20 sessions, 1 key, 2 dead letters\./,
  )
  const again = await startApp(t, env)
  const before = await snapshot(again)
  t.strictSame(
    (await again.events())
      .slice(-3)
      .map(({ event }) => event)
      .sort(),
    ['late 0', 'late 1', 'late 2'],
    'the waiting events of every lane are there',
  )
  await again.app.close()

  for (const layout of [
    { lanes: 4, shards: 3 },
    { lanes: 1, shards: 1 },
  ]) {
    const target = await settingsOn(t, nodes, { database: `target${layout.lanes}`, ...layout })
    t.match(await transfer(importAll, folder, target, [1, 3]), /Everything in .* is in/)
    const moved = await startApp(t, target)
    t.strictSame(await snapshot(moved), before, `${layout.shards} shards: the API says the same, to the byte`)
    const { shards, close } = await openStore(moved.config)
    const counts = await perShard(shards, 'SELECT count() AS n FROM profiles')
    t.ok(
      counts.every((count) => count > 0),
      `${counts} profiles on the shards of their lanes`,
    )
    for (const distinct_id of USERS.slice(0, 10)) {
      const operations = { $add: { visits: 1 } }
      const answer = await moved.call('POST', '/public/users/profile', { distinct_id, operations })
      t.equal(answer.statusCode, 200)
      const { user } = (await moved.call('GET', `/public/users/${distinct_id}`)).json()
      t.equal(user.properties.visits, distinct_id === 'user-7' ? 1 : 2, 'the state was found')
    }
    const last = (await moved.events()).at(-1)?.eventId ?? ''
    for (let key = 0; key < 8; key++) {
      const headers = { 'idempotency-key': `new ${key}` }
      const answer = await moved.call('POST', '/public/track', { event: 'new', distinct_id: 'ada' }, headers)
      const id = String(answer.headers['x-event-id'])
      t.ok((parseEventId(id)?.position ?? 0n) > (parseEventId(last)?.position ?? 0n), 'behind all that was there')
    }
    t.match(await readDeadLetters(shards, { limit: 10 }), [{ position: 7n, reason: 'a reason' }])
    t.match(await run(deadLetters, ['replay', '--all'], target), { printed: '1 stored, 0 still refused.\n' })
    await close()
    await moved.app.close()
  }
})
