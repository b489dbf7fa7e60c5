import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t from 'tap'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { LAYOUTS, randomName, settingsFor, startApp, until } from '../helper.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }
const HOUR_MS = 3_600_000

interface Event {
  event: string
  distinct_id: string
  insert_id?: string
  timestamp?: number
}

/** Lets the journals forget all ids, as after a week. The service must be stopped, and everything must be stored. */
async function forgetIds(env: NodeJS.ProcessEnv): Promise<void> {
  if (!env.REDIS_URL) return await rm(join(env.DATA_DIR ?? '', 'journal'), { recursive: true })
  const redis = new Redis(env.REDIS_URL)
  const keys = await redis.keys('*:ids:*')
  if (keys.length > 0) await redis.del(keys)
  redis.disconnect()
}

for (const layout of LAYOUTS) {
  t.test(layout, async (t) => {
    const env = await settingsFor(t, layout)
    const first = await startApp(t, env)
    const user = randomName('user')
    const at = Date.UTC(2020, 0, 1)
    const of = (names: string, hours = 0): Event[] =>
      [...names].map((id, i) => ({ event: 'e', distinct_id: user, insert_id: id, timestamp: at + i + hours * HOUR_MS }))
    t.same(
      (
        await first.call('POST', '/public/track/batch', { events: [...of('abc'), { event: 'e', distinct_id: user }] })
      ).json(),
      { status: 1, error: null, accepted: 4 },
    )
    t.equal((await first.events()).length, 4)
    await first.app.close()
    await forgetIds(env)

    const { call, events } = await startApp(t, env)
    const send = async (some: Event[], before: number | undefined = Date.now(), headers = {}) => {
      const response = await call('POST', `/public/track/batch?stored_before=${before}`, { events: some }, headers)
      return [response.statusCode, response.json().accepted, response.json().skipped]
    }
    const count = async () => (await events()).length

    t.same(await send(of('abc')), [200, 0, 3], 'all are stored')
    t.equal(await count(), 4)
    t.same(await send([...of('xb'), { event: 'e', distinct_id: user }, ...of('cy', 5)]), [200, 3, 2], 'some are')
    t.equal(await count(), 7)
    t.same(await send(of('ab').map((event) => ({ ...event, distinct_id: 'other' }))), [200, 2, 0], 'of another user')
    t.equal(await count(), 9)
    t.same(await send(of('ab').map(({ timestamp: _, ...event }) => event)), [200, 0, 2], 'without a time')
    t.same(await send([{ event: 'e', distinct_id: user }]), [200, 1, 0], 'without an id')
    t.equal(await count(), 10)

    const lines = [...of('a'), ...of('z')].map((event) => JSON.stringify(event)).join('\n')
    const response = await call('POST', `/public/import?stored_before=${Date.now()}`, lines, NDJSON)
    t.same(response.json(), { status: 1, error: null, accepted: 1, skipped: 1 })
    t.equal(await count(), 11)

    const key = { 'idempotency-key': randomName('key') }
    const before = Date.now()
    for (let i = 0; i < 2; i++) t.same(await send(of('apq'), before, key), [200, 2, 1], 'the same each time')
    t.equal(await count(), 13)
    t.same(
      await send(of('apq'), at + 1),
      [200, 3, 0],
      'nothing was stored before that, and the journal knows all since',
    )
    t.equal(await count(), 14, 'the journal has forgotten a')

    const refused = await call('POST', '/public/track/batch?stored_before=x', { events: of('a') })
    t.equal(refused.statusCode, 400)
    t.match(refused.json().error, /stored_before must be a whole number/)
  })
}

t.test('stored_before needs a secret key', async (t) => {
  const { call, config } = await startApp(t, await settingsFor(t, 'servers'), { keysRefreshMs: 200 })
  const writeKey = makeKey('write')
  const { clickhouse, close } = await openStore(config)
  await insertKeys(clickhouse, [storedKey(writeKey, { projectId: 'default', kind: 'write' })], Date.now())
  await close()
  const send = (query: string) => {
    const events = [{ event: 'e', distinct_id: 'u', insert_id: 'i' }]
    return call('POST', `/public/track/batch${query}`, { events }, { 'x-api-key': writeKey })
  }
  await until('the key', async () => (await send('')).statusCode === 200)
  const refused = await send('?stored_before=1')
  t.equal(refused.statusCode, 403)
  t.equal(refused.json().code, 'wrong_key_kind')
})
