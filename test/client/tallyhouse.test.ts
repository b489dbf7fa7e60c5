import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { Tallyhouse, TallyhouseError, type TallyhouseOptions } from '../../src/client/index.js'
import { SECRET_KEY } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { newProject } from '../shared-app.js'

const AT_ONCE = { baseDelayMs: 10, maxDelayMs: 100 }

async function all<E>(events: AsyncIterable<E>): Promise<E[]> {
  const found: E[] = []
  for await (const event of events) found.push(event)
  return found
}

function connect(t: Test, url: string, options: Partial<TallyhouseOptions> = {}): Tallyhouse {
  const tallyhouse = new Tallyhouse({ url, secretKey: SECRET_KEY, retry: AT_ONCE, queueRetry: AT_ONCE, ...options })
  t.teardown(() => tallyhouse.close(0).catch(() => undefined))
  return tallyhouse
}

t.test('the client', async (t) => {
  const client = await newProject()
  const url = await addressOf(client)
  const tallyhouse = connect(t, url, { secretKey: client.keys.secret })

  t.test('queued events are exported in order and byte for byte', async (t) => {
    const properties = '{ "id":12345678901234567890, "price":9.90 }'
    const before = Date.now()
    await Promise.all([
      tallyhouse.track({ event: 'a', distinct_id: 'ann', properties: { n: 1 } }),
      tallyhouse.track({ event: 'b', distinct_id: 'bob', properties, timestamp: new Date(5) }),
      tallyhouse.track({ event: 'c', distinct_id: 'ann' }),
      tallyhouse.flush(),
    ])
    const [a, b, c] = await all(tallyhouse.exportEvents())
    t.match(a, { eventId: /^[\da-f-]{36}$/, event: 'a', distinct_id: 'ann', properties: { n: 1 } })
    t.ok(a && a.timestamp >= before && a.timestamp <= Date.now())
    t.match(b, { event: 'b', timestamp: 5, properties: { price: 9.9 } })
    t.strictSame([c?.event, c?.properties], ['c', {}])
    const raw = await all(tallyhouse.exportEvents({ raw: true, pageSize: 2 }))
    t.strictSame(
      raw.map((event) => event.properties),
      ['{"n":1}', properties, '{}'],
    )
    const filtered = await all(tallyhouse.exportEvents({ distinct_id: 'ann', from: new Date(before) }))
    t.strictSame(
      filtered.map(({ event }) => event),
      ['a', 'c'],
    )
    t.strictSame(await all(tallyhouse.exportEvents({ to: 5 })), [])
  })

  t.test('trackNow returns an id with which the event can be edited and deleted', async (t) => {
    const eventId = await tallyhouse.trackNow({ event: 'now', distinct_id: 'ann', properties: { n: 1 } })
    const find = async () => (await all(tallyhouse.exportEvents({ event: 'now', raw: true })))[0]
    t.match(await find(), { eventId, properties: '{"n":1}' })
    await tallyhouse.editEvent(eventId, '{"n":1.50}')
    t.match(await find(), { eventId, properties: '{"n":1.50}' })
    await tallyhouse.deleteEvent(eventId)
    t.equal(await find(), undefined)
    await t.rejects(tallyhouse.deleteEvent(eventId), { name: 'TallyhouseError', code: 'not_found', status: 404 })
  })

  t.test('identify and updateProfile change profiles', async (t) => {
    await tallyhouse.identify('ann/äöü', { plan: 'free', visits: 1 })
    await tallyhouse.updateProfile('ann/äöü', { $set: { plan: 'pro' }, $add: { visits: 1 }, $append: { tags: 'a' } })
    await tallyhouse.identify('ann/äöü')
    const user = await tallyhouse.getUser('ann/äöü')
    t.match(user, { distinct_id: 'ann/äöü', properties: { plan: 'pro', visits: 2, tags: ['a'] }, created_at: Number })
    await t.rejects(tallyhouse.updateProfile('ann/äöü', { $add: { plan: 1 } }), { code: 'not_numeric' })
    await tallyhouse.deleteUser('ann/äöü')
    await t.rejects(tallyhouse.getUser('ann/äöü'), { code: 'not_found' })
    await t.rejects(tallyhouse.identify(''), { code: 'invalid_request' })
  })

  t.test('alias links two names', async (t) => {
    await tallyhouse.identify('ann', { plan: 'free' })
    await tallyhouse.alias('ann', 'gerät/7')
    await tallyhouse.alias('ann', 'gerät/7')
    t.match(await tallyhouse.getUser('gerät/7'), { distinct_id: 'ann', properties: { plan: 'free' } })
    await t.rejects(tallyhouse.alias('bob', 'gerät/7'), { code: 'alias_conflict', status: 409 })
    await t.rejects(tallyhouse.alias('ann', ''), { code: 'invalid_request' })
    const lines = await all(tallyhouse.exportUser('gerät/7'))
    t.match(lines[1], { type: 'alias', distinct_id: 'ann', alias: 'gerät/7' })
  })

  t.test('removeAlias removes an alias', async (t) => {
    await tallyhouse.identify('uma', { name: 'Uma' })
    await tallyhouse.identify('tablet/2', { name: 'Tablet' })
    await tallyhouse.alias('uma', 'tablet/2')
    t.match(await tallyhouse.getUser('tablet/2'), { distinct_id: 'uma' })
    await tallyhouse.removeAlias('uma', 'tablet/2')
    t.match(await tallyhouse.getUser('tablet/2'), { distinct_id: 'tablet/2', properties: { name: 'Tablet' } })
    t.match(await tallyhouse.getUser('uma'), { distinct_id: 'uma', properties: { name: 'Uma' } })
    await t.rejects(tallyhouse.removeAlias('uma', 'tablet/2'), { code: 'not_found', status: 404 })
    // A URL with this id would refer to the user itself.
    for (const name of ['', '.', '..'])
      await t.rejects(tallyhouse.removeAlias('uma', name), { code: 'invalid_request' })
    t.match(await tallyhouse.getUser('uma'), { distinct_id: 'uma' })
  })

  t.test('getSession reads a session', async (t) => {
    await client.browser('/public/sessions/start', { distinct_id: 'ann', session_id: 's/1', properties: { a: 1 } })
    const session = await tallyhouse.getSession('s/1')
    t.match(session, { session_id: 's/1', distinct_id: 'ann', state: 'active', properties: { a: 1 }, ended_at: null })
  })

  t.test('getEvent, exportEvents and exportUser return exact data', async (t) => {
    const distinct_id = 'reader/ö'
    const properties = '{ "id":12345678901234567890, "price":9.90 }'
    const ids: string[] = []
    for (const event of ['one', 'two', 'three']) {
      ids.push(await tallyhouse.trackNow({ event, distinct_id, properties, timestamp: 5 }))
    }
    const [first = ''] = ids
    const event = { eventId: first, event: 'one', distinct_id, timestamp: 5 }
    t.strictSame(await tallyhouse.getEvent(first, { raw: true }), { ...event, properties })
    t.equal((await tallyhouse.getEvent(first)).properties.price, 9.9)
    await t.rejects(tallyhouse.getEvent('018f0000-0000-7000-8000-000000000000'), { code: 'not_found' })
    const newest = await all(tallyhouse.exportEvents({ distinct_id, order: 'desc', pageSize: 2 }))
    t.strictSame(
      newest.map(({ eventId }) => eventId),
      [...ids].reverse(),
    )
    await tallyhouse.identify(distinct_id, properties)
    await client.browser('/public/sessions/start', { distinct_id, session_id: 'of reader' })
    const raw = await all(tallyhouse.exportUser(distinct_id, { raw: true }))
    t.strictSame(
      raw.map(({ type }) => type),
      ['profile', 'session', 'event', 'event', 'event'],
    )
    const texts = raw.map((record) => record.type !== 'alias' && record.properties)
    t.strictSame([texts[0], texts[4]], ['{"id":12345678901234567890,"price":9.90}', properties])
    for await (const record of tallyhouse.exportUser(distinct_id)) {
      if (record.type === 'event') t.ok(ids.includes(record.eventId))
      else if (record.type === 'session') t.equal(record.session_id, 'of reader')
      else if (record.type === 'profile') t.equal(record.properties.price, 9.9)
      else t.fail(record.type)
    }
    await t.rejects(all(tallyhouse.exportUser('nobody')), { code: 'not_found' })
    await t.rejects(all(tallyhouse.exportUser(distinct_id, { signal: AbortSignal.abort() })), { code: 'aborted' })
  })

  t.test('an id such as .. is refused instead of changing the URL', async (t) => {
    await tallyhouse.trackNow({ event: 'climb', distinct_id: '..' })
    for (const id of ['..', '.']) {
      await t.rejects(all(tallyhouse.exportUser(id)), { code: 'invalid_request', status: null }, id)
      await t.rejects(tallyhouse.getUser(id), { code: 'invalid_request', status: null }, id)
      await t.rejects(tallyhouse.deleteUser(id), { code: 'invalid_request', status: null }, id)
    }
    await t.rejects(tallyhouse.getUser('...'), { code: 'not_found' })
  })

  t.test('listSessions lists sessions', async (t) => {
    const distinct_id = 'lister'
    await client.browser('/public/sessions/start', { distinct_id, session_id: 'a' })
    await client.browser('/public/sessions/start', { distinct_id, session_id: 'b' })
    await client.browser('/public/sessions/end', { distinct_id, session_id: 'a' })
    const page = await tallyhouse.listSessions({ distinct_id, limit: 1 })
    t.match(page, { page: 1, limit: 1, hasMore: true, sessions: [{ distinct_id }] })
    const { sessions } = await tallyhouse.listSessions({ distinct_id, state: 'completed', from: new Date(0) })
    t.strictSame(
      sessions.map(({ session_id }) => session_id),
      ['a'],
    )
    t.strictSame((await tallyhouse.listSessions({ distinct_id, to: new Date(5) })).sessions, [])
  })

  t.test('project, changeProject and usage read and change the project', async (t) => {
    const { revision, timezone } = await tallyhouse.project()
    t.equal(timezone, 'UTC')
    const changed = await tallyhouse.changeProject({ timezone: 'Asia/Tokyo', keep: { sessions: '2y' }, revision })
    t.match(changed, { id: client.projectId, timezone: 'Asia/Tokyo', keep: { sessions: '2y' }, revision: revision + 1 })
    t.strictSame(await tallyhouse.project(), changed)
    await t.rejects(tallyhouse.changeProject({ name: 'Late', revision }), { code: 'revision_conflict' })
    await tallyhouse.changeProject({ timezone: null, keep: null })
    const { days, stored_bytes, quotas } = await tallyhouse.usage()
    t.ok(days.length === 1 && (days[0]?.events ?? 0) > 0 && stored_bytes > 0)
    t.strictSame(quotas, [])
    t.strictSame((await tallyhouse.usage({ to: '1970-01-05' })).days, [])
  })

  t.test('refusals of the service are thrown', async (t) => {
    const stranger = connect(t, url, { secretKey: 'sk_unknown' })
    await t.rejects(stranger.trackNow({ event: 'a', distinct_id: 'b' }), { code: 'unauthorized', status: 401 })
    await t.rejects(all(stranger.exportEvents()), TallyhouseError)
    await t.rejects(all(tallyhouse.exportEvents({ pageSize: 0 })), {
      code: 'invalid_request',
      details: [{ path: '/limit' }],
    })
    await t.rejects(all(tallyhouse.exportEvents({ signal: AbortSignal.abort() })), { code: 'aborted' })
  })
})

t.test('a process with nothing else to do delivers its events before it ends', async (t) => {
  const project = await newProject()
  const [url, secretKey] = [await addressOf(project), project.keys.secret]
  const script = `
    import { Tallyhouse } from ${JSON.stringify(new URL('../../packages/client/dist/esm/client/index.js', import.meta.url))}
    const tallyhouse = new Tallyhouse({ url: '${url}', secretKey: '${secretKey}', flushIntervalMs: 50 })
    tallyhouse.track({ event: 'last words', distinct_id: 'u' })
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' })
  t.strictSame(await once(child, 'exit'), [0, null])
  t.strictSame(
    (await project.events()).map(({ event }) => event),
    ['last words'],
  )
})
