import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type BareLane, openWholeStore } from '../../src/cli/whole-store.js'
import { loadConfig } from '../../src/config.js'
import { storedKey } from '../../src/keys/keys.js'
import { parseEventId } from '../../src/model/event-id.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { type Client, realEvents, settingsFor, startApp, temporaryFolder, until } from '../helper.js'

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
const SHOP_KEY = 'sk_shop_test_secret_key'

/** Runs the command as users do. @param killAfter kills it once this number of files is recorded as done */
async function run(name: 'export' | 'import', folder: string, env: NodeJS.ProcessEnv, killAfter?: number) {
  const child = spawn(process.execPath, [CLI, name, '--all', folder], { env: { PATH: process.env.PATH, ...env } })
  let said = ''
  child.stderr.on('data', (text) => {
    said += text
  })
  const ended = once(child, 'close')
  if (killAfter !== undefined) {
    await until(`${name} to reach file ${killAfter}`, async () => {
      if (child.exitCode !== null) throw new Error(`it ended: ${said}`)
      return (await filesDone(name, folder)) >= killAfter
    })
    child.kill('SIGKILL')
  }
  const [code] = await ended
  return { code, said }
}

async function filesDone(name: 'export' | 'import', folder: string): Promise<number> {
  const files = await readdir(folder).catch(() => [])
  const file = files.find((file) => (name === 'export' ? file === 'manifest.json' : /^imported-\w+\.json$/.test(file)))
  if (!file) return 0
  const state = JSON.parse(await readFile(join(folder, file), 'utf8'))
  return name === 'export' ? state.chunks.length : state.done
}

const asShop = { 'x-api-key': SHOP_KEY }

/** Everything that the API returns about the stored data, byte for byte. */
async function snapshot({ call }: Client): Promise<string[]> {
  const answers: string[] = []
  for (const headers of [{}, asShop]) {
    for (const url of ['/events?limit=10000', '/users?limit=100', '/users/ada', '/users/gone', '/sessions/s1']) {
      const answer = await call('GET', `/public${url}`, undefined, headers)
      if (answer.statusCode >= 500) throw new Error(answer.body)
      answers.push(answer.body)
    }
  }
  return answers
}

/** Stores data in two projects: also edited, deleted and repeated events, and dead letters. */
async function fill(client: Client): Promise<void> {
  const { call, browser } = client
  const { clickhouse, close } = await openStore(client.config)
  await insertKeys(clickhouse, [storedKey(SHOP_KEY, { projectId: 'shop', kind: 'secret' })], Date.now())
  await until(
    'the key of the shop',
    async () => (await call('GET', '/public/events', undefined, asShop)).statusCode === 200,
  )
  const lines = (await realEvents()).slice(0, 500)
  for (const headers of [{}, asShop]) {
    await call('POST', '/public/track/batch', `{"events":[${lines.join(',')}]}`, headers)
    await call('POST', '/public/track', '{"event":"e","distinct_id":"ada","properties":{"b": 1.0,"a":1e400}}', headers)
    for (const name of ['ada', 'gone']) {
      await call('POST', '/public/users/identify', { distinct_id: name, properties: { visits: 1 } }, headers)
    }
    await call('POST', '/public/users/profile', { distinct_id: 'ada', operations: { $add: { visits: 2 } } }, headers)
    await call('DELETE', '/public/users/gone', undefined, headers)
  }
  await browser('/public/sessions/start', { distinct_id: 'ada', session_id: 's1', properties: { page: '/' } })
  await browser('/public/sessions/update', { distinct_id: 'ada', session_id: 's1', properties: { duration: 5 } })
  const events = await client.events()
  await call('PUT', `/public/events/${events[3]?.eventId}`, { properties: { edited: true } })
  await call('DELETE', `/public/events/${events[4]?.eventId}`)
  const letter = {
    position: 7n,
    projectId: 'shop',
    kind: 'events' as const,
    count: 1,
    receivedAt: 0,
    body: Buffer.from('{"events":[]}'),
  }
  await insertDeadLetter(clickhouse, 1, letter, 'a reason', 'token')
  await close()
}

/** Leaves an event in the journal of a stopped service. */
async function leaveWaiting(env: NodeJS.ProcessEnv): Promise<void> {
  const { lanes, close } = await openWholeStore(loadConfig(env), { mustExist: true })
  const [{ journal }] = lanes as [BareLane]
  const body = Buffer.from('{"events":[{"event":"late","distinct_id":"ada"}]}')
  await journal.write([{ type: 'append', keyClass: 'secret', projectId: 'default', count: 1, body, ids: NO_IDS }])
  t.equal((await journal.depth()).entries, 1)
  await close()
}

/** Checks that everything is there once, and that new events come after it. */
async function check(t: Test, env: NodeJS.ProcessEnv, wanted: string[]): Promise<void> {
  const client = await startApp(t, env)
  const { call, browser } = client
  t.strictSame(await snapshot(client), wanted, 'the API says the same, to the byte')
  const before = (await client.events()).at(-1)?.eventId ?? ''
  const answer = await call('POST', '/public/track', { event: 'new', distinct_id: 'ada' })
  const id = String(answer.headers['x-event-id'])
  t.equal((await client.events()).at(-1)?.eventId, id, 'a new event is last')
  t.ok((parseEventId(id)?.position ?? 0n) > (parseEventId(before)?.position ?? 0n), 'behind all positions')
  await call('POST', '/public/users/profile', { distinct_id: 'ada', operations: { $add: { visits: 1 } } })
  t.match((await call('GET', '/public/users/ada')).json(), { user: { properties: { visits: 4 } } })
  t.equal((await browser('/public/sessions/end', { distinct_id: 'ada', session_id: 's1' })).statusCode, 200)
  const { shards, close } = await openStore(client.config)
  t.match(await readDeadLetters(shards, { limit: 10 }), [{ position: 7n, projectId: 'shop', reason: 'a reason' }])
  await close()
  await client.app.close()
}

t.test('a store moves from the embedded parts to servers, and back', async (t) => {
  const env = await settingsFor(t, 'embedded')
  const client = await startApp(t, env, { keysRefreshMs: 200 })
  await fill(client)
  const folder = join(await temporaryFolder(t), 'moved')
  t.match(await run('export', folder, env), { code: 1, said: /is in use by process \d+/ }, 'not while a service runs')
  await client.app.close()
  await leaveWaiting(env)

  await run('export', folder, env, 2)
  const done = await filesDone('export', folder)
  t.match(await run('import', folder, env), { code: 1, said: /not complete/ })
  const exported = await run('export', folder, env)
  t.match(exported, { code: 0, said: /1 002 events, 2 profiles, 1 session, 1 key, 1 dead letter\./ })
  t.ok((await filesDone('export', folder)) > done, `killed after ${done} files`)
  t.match(await run('export', folder, env), { code: 0, said: /was exported at/ })

  const again = await startApp(t, env)
  const before = await snapshot(again)
  t.equal((await again.events()).at(-1)?.event, 'late', 'the waiting event of the journal is there')
  await again.app.close()
  t.match(
    await run('import', folder, env),
    { code: 1, said: /already contains 1 002 events/ },
    'not into a store that is in use',
  )

  const servers = await settingsFor(t, 'servers')
  await run('import', folder, servers, 3)
  const stored = await filesDone('import', folder)
  t.match(await run('import', folder, servers), { code: 0, said: /Resuming after \d.*[\s\S]*1 002 events/ })
  t.pass(`killed after ${stored} files`)
  t.match(await run('import', folder, servers), { code: 0, said: /was imported into/ })
  await check(t, servers, before)

  const back = join(await temporaryFolder(t), 'back')
  t.match(await run('export', back, { ...servers, REDIS_URL: undefined, DATA_DIR: await temporaryFolder(t) }), {
    code: 1,
    said: /belongs to another journal/,
  })
  t.match(await run('export', back, servers), { code: 0, said: /1 003 events/ })
  const after = await startApp(t, servers)
  const moved = await snapshot(after)
  await after.app.close()
  const home = { ...(await settingsFor(t, 'embedded')) }
  t.match(await run('import', back, home), { code: 0, said: /1 003 events/ })
  const last = await startApp(t, home)
  t.strictSame(await snapshot(last), moved)
  await last.app.close()
})
