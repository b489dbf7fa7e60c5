// Makes stores with the built version for upgrade.test.ts: npm run fixture. Run it once for a version, when it is
// released. Each store looks like after a kill: some events are not in its facts, and others are only in its journals.
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import { loadConfig } from '../../src/config.js'
import { CloseStack } from '../../src/lib/close-stack.js'
import { insertDeadLetter } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { VERSION } from '../../src/version.js'
import { runCommand } from '../cli/command-line.js'
import { enginePid } from '../delivery/servers.js'
import { completeFacts } from '../facts/copied-facts.js'
import { type Scope, startService, until } from '../helper.js'
import { ask, makeReads, send } from './answers.js'
import { addUncopied, addWaiting, fill, REPEATABLE } from './contents.js'
import {
  archiveOf,
  callsOf,
  type Expected,
  KINDS,
  type Kind,
  openFolder,
  pack,
  unpack,
  writeExpected,
} from './stores.js'

const MAX_BYTES = 2 * 1024 * 1024

for (const kind of KINDS) {
  const archive = archiveOf(VERSION, kind)
  await mkdir(dirname(archive), { recursive: true })
  const folder = await mkdtemp(join(tmpdir(), 'tallyhouse-fixture-'))
  await inScope((t) => makeStore(t, folder, kind))
  await pack(folder, archive)
  await rm(folder, { recursive: true })
  const { size } = await stat(archive)
  if (size > MAX_BYTES) throw new Error(`${archive} has ${size} bytes, more than ${MAX_BYTES}.`)
  const expected = await inScope((t) => readAnswers(t, archive, kind))
  await writeExpected(VERSION, kind, expected)
  console.log(`${archive}: ${size} bytes`)
}

async function inScope<T>(task: (t: Scope) => Promise<T>): Promise<T> {
  const opened = new CloseStack()
  try {
    return await task({ teardown: (close) => opened.add({ close: async () => void (await close()) }) })
  } finally {
    await opened.close()
  }
}

async function makeStore(t: Scope, folder: string, kind: Kind): Promise<void> {
  const { settings, engine, redis } = await openFolder(t, folder, kind)
  const service = await startService(t, settings)
  const call = callsOf(service.url)
  await fill(call)
  await addByOperator(settings, service.url)
  const store = await openStore(loadConfig(settings))
  await completeFacts(store.clickhouse, ['default'])
  await until('the usage', async () => (await store.clickhouse.rows('SELECT 1 FROM project_usage')).length > 0)
  await store.close()
  await addUncopied(call)
  await until(
    'the events',
    async () => JSON.parse(await call('GET', '/public/events?event=not%20copied')).events.length,
  )
  // From here on, nothing is stored or copied into the facts; otherwise, both would happen within a second.
  const pid = engine ? engine.pid() : await enginePid(settings.DATA_DIR ?? '')
  if (pid === undefined) throw new Error('ClickHouse is not there')
  process.kill(pid, 'SIGSTOP')
  await addWaiting(call)
  service.process.kill('SIGKILL')
  await service.ended
  process.kill(pid, 'SIGKILL')
  if (!redis) return
  const client = new Redis(redis.url)
  await client.save()
  client.disconnect()
}

/** Another project with a key, which the facts leave out, and a dead letter that can be replayed. */
async function addByOperator(settings: NodeJS.ProcessEnv, url: string): Promise<void> {
  const { stdout } = await runCommand(['keys', 'create', '--project', 'other', '--label', 'Other'], '', settings)
  const [key = ''] = /sk_[\w-]{43}/.exec(stdout) ?? []
  const call = callsOf(url)
  const event = { event: 'foreign', distinct_id: 'ada', properties: {} }
  await until('the key', () => call('POST', '/public/track', event, { 'x-api-key': key }).catch(() => false))
  await runCommand(['facts', 'leave-out', 'other'], '', settings)
  const store = await openStore(loadConfig(settings))
  const receivedAt = Date.UTC(2026, 2, 3)
  const letter = {
    position: BigInt(receivedAt) << 16n,
    kind: 'events' as const,
    projectId: 'default',
    count: 1,
    receivedAt,
    body: Buffer.from(JSON.stringify({ events: [{ event: 'replayed', distinct_id: 'cy', properties: {} }] })),
  }
  await insertDeadLetter(store.clickhouse, 7, letter, 'ClickHouse error 27: it could not be read', 'letter')
  await store.close()
}

/** The responses of the store, after a check that it is in the middle of its work. */
async function readAnswers(t: Scope, archive: string, kind: Kind): Promise<Expected> {
  const { settings } = await openFolder(t, await unpack(t, archive), kind)
  const store = await openStore(loadConfig(settings))
  const [found] = await store.clickhouse.rows<{ copied: string; uncopied: string; waiting: string }>(
    `SELECT count() AS copied,
       (SELECT count() FROM events WHERE event = 'not copied') - countIf(event = 'not copied') AS uncopied,
       (SELECT count() FROM events WHERE event LIKE 'waits%') AS waiting
     FROM event_facts`,
  )
  await store.close()
  if (!found || found.copied === '0' || Number(found.uncopied) <= 0 || found.waiting !== '0') {
    throw new Error(`The store does not have the expected data: ${JSON.stringify(found)}. Run this again.`)
  }
  const { url } = await startService(t, settings)
  const call = callsOf(url)
  const day = new Date().toISOString().slice(0, 10)
  return { day, reads: await ask(call, makeReads(day)), repeated: await send(call, REPEATABLE) }
}
