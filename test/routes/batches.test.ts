import t from 'tap'
import { type Client, randomName } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'
import { eventCalls, isRefused } from './event-calls.js'

interface Sent {
  insert_id?: string
  timestamp?: number
  distinct_id?: string
}

/** Calls that send batches, and delete what they have stored. */
function batchCalls(client: Client) {
  const { stored } = eventCalls(client)
  const send = async (distinct_id: string, events: Sent[], key?: string) => {
    const body = { events: events.map((event, n) => ({ event: `e${n}`, distinct_id, ...event })) }
    const headers = key === undefined ? {} : { 'idempotency-key': key }
    const response = await client.call('POST', '/public/track/batch', body, headers)
    if (response.statusCode !== 200) throw new Error(response.body)
    return String(response.headers['x-batch-ids'])
  }
  const remove = async (ids: string | string[], dry_run?: boolean) => {
    const batches = [ids].flat().flatMap((id) => id.split(','))
    const response = await client.call('POST', '/public/events/delete', { batches, dry_run })
    if (response.statusCode !== 200) throw new Error(response.body)
    const { events, with_insert_id } = response.json()
    return [events, with_insert_id]
  }
  const namesOf = async (user: string) => (await stored(user)).map(({ event }) => event)
  return { send, remove, namesOf }
}

t.test('the events of batches are deleted together', async (t) => {
  const client = await newProject(await sharedApp('lanes'))
  const { send, remove, namesOf } = batchCalls(client)
  const ids = (count: number, from = 0) => Array.from({ length: count }, (_, n) => ({ insert_id: `i${from + n}` }))

  t.test('immediately, and nothing else', async (t) => {
    const user = randomName('user')
    const [before, batch] = [await send(user, [{}, {}]), await send(user, [{}, {}, {}])]
    await client.call('POST', '/public/track', { event: 'single', distinct_id: user })
    t.strictSame(await remove(batch, true), [3, 0], 'counted')
    for (const [query, field] of [
      ['?dry_run=true', {}],
      ['', { dryRun: true }],
    ] as const) {
      const mistyped = await client.call('POST', `/public/events/delete${query}`, { batches: [batch], ...field })
      t.match(mistyped.json().details, [{ message: /^is unknown/ }], 'a mistyped dry run deletes nothing')
    }
    t.equal((await namesOf(user)).length, 6)
    t.strictSame(await remove(batch), [3, 0])
    t.strictSame((await namesOf(user)).sort(), ['e0', 'e1', 'single'])
    t.strictSame(await remove(batch), [0, 0], 'again')
    t.strictSame(await remove([before, batch]), [2, 0], 'those that are left')
    t.strictSame(await namesOf(user), ['single'])
  })

  t.test('also those of lines', async (t) => {
    const user = randomName('user')
    const line = `{"event":"line","distinct_id":"${user}"}\n`
    const headers = { 'content-type': 'application/x-ndjson' }
    const response = await client.call('POST', '/public/import', line.repeat(4), headers)
    t.strictSame(await remove(String(response.headers['x-batch-ids'])), [4, 0])
    t.strictSame(await namesOf(user), [])
  })

  t.test('an event with a known insert_id belongs to the batch that stored it', async (t) => {
    const user = randomName('user')
    const first = await send(user, ids(10))
    const second = await send(user, [...ids(10, 5), {}])
    t.equal(await send(user, ids(12, 2)), 'none', 'nothing was stored')
    t.strictSame(await remove(second), [6, 5])
    t.equal((await namesOf(user)).length, 10)
    t.strictSame(await remove(first), [10, 10])
    t.strictSame(await namesOf(user), [])
  })

  t.test('a repeated request returns the same ids', async (t) => {
    const user = randomName('user')
    for (const [name, events] of [
      ['plain', [{}, {}]],
      ['named', ids(20, 100)],
      ['both', [...ids(20, 200), {}, {}]],
    ] as const) {
      const first = await send(user, [...events], `${user} ${name}`)
      t.not(first, 'none')
      t.equal(await send(user, [...events], `${user} ${name}`), first, name)
    }
  })
})

t.test('events that have expired are deleted, but not counted', async (t) => {
  const client = await newProject()
  const { send, remove, namesOf } = batchCalls(client)
  const user = randomName('user')
  const batch = await send(user, [{ timestamp: Date.now() - 40 * 86_400_000, insert_id: 'old' }, {}])
  t.strictSame(await remove(batch, true), [2, 1])
  await client.call('PATCH', '/public/project', { keep: { events: '30d' } })
  t.strictSame(await remove(batch, true), [1, 0])
  t.strictSame(await remove(batch), [1, 0])
  await client.call('PATCH', '/public/project', { keep: { events: null } })
  t.strictSame(await namesOf(user), [])
})

t.test('invalid and unknown ids', async (t) => {
  const client = await newProject()
  const { send, remove, namesOf } = batchCalls(client)
  const { track } = eventCalls(client)
  const remove1 = (batches: unknown) => client.call('POST', '/public/events/delete', { batches })
  const user = randomName('user')
  isRefused(t, await remove1([await track(user)]), 400, 'invalid_request', '/batches/0')
  isRefused(t, await remove1(['none']), 400, 'invalid_request', '/batches/0')
  isRefused(t, await remove1([]), 400, 'invalid_request', '/batches')
  isRefused(t, await remove1(Array(1001).fill('0'.repeat(24))), 400, 'invalid_request', '/batches')
  const batch = await send(user, [{}])
  const later = `ffff${batch.slice(4)}`
  t.strictSame(await remove([later, '0'.repeat(24)]), [0, 0])
  t.strictSame(await remove(Array(1000).fill(batch)), [1, 0], 'one id a thousand times')
  t.strictSame(await namesOf(user), ['e'])
})
