import { Redis } from 'ioredis'
import t from 'tap'
import { randomName, settingsFor, startApp } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }
const HOUR_MS = 3_600_000

interface Event {
  event: string
  distinct_id: string
  insert_id?: string
  timestamp?: number
}

t.test('stored_before', async (t) => {
  const env: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'lanes')), FACTS: 'off' }
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
  const redis = new Redis(env.REDIS_URL ?? '')
  t.teardown(() => redis.disconnect())
  /** The journals forget all ids, as after a week. */
  const forget = async () => t.ok(await redis.del(await redis.keys('*:ids:*')))
  await forget()

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
    'nothing was stored before that, and the journal knows everything since',
  )
  t.equal(await count(), 14, 'the journal has forgotten a')

  const future = Date.now() + HOUR_MS
  for (let i = 0; i < 2; i++) {
    const early = { 'idempotency-key': 'early' }
    t.same(await send(of('rsu', 1000), future, early), [200, 3, 0], 'a retry gets the first response')
    t.same(await send([...of('r', 1000), ...of('t', 2000)], future, { 'idempotency-key': 'late' }), [200, 1, 1])
  }
  t.equal(await count(), 18)
  await forget()
  t.same(await send(of('t', 2000), future), [200, 0, 1], 'a day that had no events before is searched, too')
  t.same(await send(of('a'), 0), [200, 1, 0], 'nothing is stored before the first moment')

  const refused = await call('POST', '/public/track/batch?stored_before=x', { events: of('a') })
  t.equal(refused.statusCode, 400)
  t.match(refused.json().error, /stored_before must be a whole number/)
  const tooLate = await call('POST', '/public/track/batch?stored_before=9007199254740991', { events: of('a') })
  t.match([tooLate.statusCode, tooLate.json().error], [400, /stored_before must be .*, at most 9999999999999/])
})

for (const setup of ['embedded', 'lanes'] as const) {
  t.test(`with stored_before, deleted events are stored again (${setup})`, async (t) => {
    const { call, events } = await newProject(await sharedApp(setup))
    const of = (names: string) => [...names].map((insert_id) => ({ event: 'e', distinct_id: insert_id, insert_id }))
    const send = async (names: string, before?: number, key = randomName('key')) => {
      const query = before === undefined ? '' : `?stored_before=${before}`
      const headers = { 'idempotency-key': key }
      const response = await call('POST', `/public/track/batch${query}`, { events: of(names) }, headers)
      t.equal(response.statusCode, 200)
      return response.headers['x-batch-ids'] as string
    }
    const stored = async () =>
      (await events())
        .map(({ insert_id }) => insert_id)
        .sort()
        .join('')
    const remove = async (ids: string) =>
      (await call('POST', '/public/events/delete', { batches: ids.split(',') })).json().events

    t.equal(await remove(await send('abcd')), 4)
    await send('a')
    t.equal(await stored(), '', 'without stored_before, the ids stay known')
    const before = Date.now()
    const ids = await send('abbx', before, 'again')
    t.equal(await stored(), 'abx')
    t.equal(await send('abbx', before, 'again'), ids, 'a repetition gets the same ids')
    await Promise.all([...'cccc'].map((name) => send(`${name}a`, before)))
    await send('abcx')
    t.equal(await stored(), 'abcx', 'each is stored once')
    t.equal(await remove(ids), 3)
    t.equal(await remove(await send('abx', Date.now() + 1)), 3)
    t.equal(await stored(), 'c')
    await send('c', 0)
    t.equal(await stored(), 'c')
    const future = Date.now() + HOUR_MS
    const own = await send('cyz', future, 'early')
    t.equal(await stored(), 'cyz')
    t.equal(await send('cyz', future, 'early'), own, 'with a time that is yet to come, too')
    t.equal(await send('cyz', future), 'none')
  })
}

t.test('stored_before needs a secret key', async (t) => {
  const { call, keys } = await newProject()
  const send = (query: string) => {
    const events = [{ event: 'e', distinct_id: 'u', insert_id: 'i' }]
    return call('POST', `/public/track/batch${query}`, { events }, { 'x-api-key': keys.write })
  }
  t.equal((await send('')).statusCode, 200)
  t.match((await send('?stored_before=1')).json(), { code: 'wrong_key_kind' })
})
