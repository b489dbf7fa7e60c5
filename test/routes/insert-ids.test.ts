import t from 'tap'
import { type Client, randomName } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

// Of all events of a user with one insert_id, the first is stored, however the others are sent: alone or in a batch,
// scanned or parsed, to one lane or to several.

interface Event {
  event: string
  distinct_id: string
  insert_id?: string | null
  properties?: object
}

/** `[event, insert_id]` of the exported events, in order. */
async function storedOf({ call }: Client, user?: string): Promise<[string, string | undefined][]> {
  const filter = user === undefined ? '' : `&distinct_id=${encodeURIComponent(user)}`
  const response = await call('GET', `/public/events?limit=1000${filter}`)
  const { events, pending } = response.json()
  if (pending !== 0) throw new Error('the store has not caught up')
  return events.map(({ event, insert_id }: Event) => [event, insert_id])
}

t.test('insert ids', async (t) => {
  const client = await newProject(await sharedApp('lanes'))
  const { call } = client
  const track = async (event: Event, headers: Record<string, string> = {}) => {
    const response = await call('POST', '/public/track', event, headers)
    t.equal(response.body, '{"status":1,"error":null}')
    return response.headers['x-event-id']
  }
  const batch = async (events: Event[], headers: Record<string, string> = {}) => {
    const response = await call('POST', '/public/track/batch', { events }, headers)
    t.equal(response.body, `{"status":1,"error":null,"accepted":${events.length}}`)
  }

  t.test('single events, concurrently and later', async () => {
    const user = randomName('user')
    const event = { event: 'a', distinct_id: user, insert_id: 'one' }
    const ids = await Promise.all(Array.from({ length: 20 }, () => track(event)))
    t.equal(ids.filter((id) => id !== undefined).length, 1, 'the place of one is known')
    t.equal(await track({ ...event, event: 'b' }), undefined)
    t.ok(await track({ ...event, event: 'other', insert_id: 'two' }))
    t.ok(await track({ ...event, event: 'without', insert_id: null }))
    t.same(await storedOf(client, user), [
      ['a', 'one'],
      ['other', 'two'],
      ['without', undefined],
    ])
    const [known] = ids.filter((id) => id !== undefined)
    t.match((await call('GET', `/public/events/${known}`)).json(), { event: { event: 'a', insert_id: 'one' } })
  })

  t.test('batches with several users and new events', async () => {
    const users = Array.from({ length: 8 }, () => randomName('user'))
    const of = (name: string, insert_id: string) =>
      users.map((distinct_id) => ({ event: name, distinct_id, insert_id }))
    const plain = users.map((distinct_id) => ({ event: 'plain', distinct_id }))
    await batch([...of('a', 'x'), ...plain, ...of('twice', 'x'), ...of('b', 'y')])
    await Promise.all([
      batch([...of('again', 'y'), ...of('c', 'z'), ...plain]),
      ...users.map((distinct_id) => track({ event: 'c', distinct_id, insert_id: 'z' })),
    ])
    await batch(of('again', 'x'))
    for (const user of users) {
      const names = (await storedOf(client, user)).map(([name]) => name)
      t.same(names.toSorted(), ['a', 'b', 'c', 'plain', 'plain'])
    }
  })

  t.test('any spelling of the body', async () => {
    const user = `${randomName('ü"\\')}\u0000`
    const text = (insertId: string, more = '') =>
      `{"events":[{"event":"e","distinct_id":${JSON.stringify(user)},"insert_id":${insertId}${more}}]}`
    // An escape is a different spelling; the scanner leaves a repeated name to the parser.
    const spellings = ['"ids"', '"\\u0069ds"', '"i\\u0064s"'].map((id) => text(id))
    spellings.push(text('"ids"', ',"event":"e"'), text('"ids"', ',"other":{"insert_id":"x"},"properties":null'))
    for (const body of spellings) {
      t.equal((await call('POST', '/public/track/batch', body)).statusCode, 200, body)
    }
    t.same(await storedOf(client, user), [['e', 'ids']])
    await batch([{ event: 'é', distinct_id: user, insert_id: '😀'.repeat(255) }])
    t.same((await storedOf(client, user)).at(-1), ['é', '😀'.repeat(255)])
  })

  t.test('invalid ids are refused', async () => {
    for (const insert_id of ['', 'x'.repeat(256), 7, {}, '\ud800']) {
      const event = { event: 'e', distinct_id: randomName('user'), insert_id }
      for (const [path, body] of [
        ['/public/track', event],
        ['/public/track/batch', { events: [event] }],
      ] as const) {
        const response = await call('POST', path, body)
        t.equal(response.statusCode, 400, response.body)
        t.match(response.json().details, [{ path: /insert_id$/ }])
      }
    }
  })

  t.test('together with an Idempotency-Key', async () => {
    const user = randomName('user')
    const key = { 'idempotency-key': randomName('key') }
    const event = { event: 'a', distinct_id: user, insert_id: 'one' }
    const id = await track(event, key)
    t.ok(id)
    t.equal(await track(event, key), id, 'the first answer again')
    t.equal(await track(event), undefined)
    const conflict = await call('POST', '/public/track', { ...event, insert_id: 'two' }, key)
    t.equal(conflict.statusCode, 409)

    const batchKey = { 'idempotency-key': randomName('key') }
    const events = [
      { event: 'plain', distinct_id: user },
      { event: 'b', distinct_id: user, insert_id: 'b' },
      ...Array.from({ length: 5 }, (_, i) => ({ event: 'others', distinct_id: `${user} ${i}`, insert_id: 'b' })),
    ]
    for (let i = 0; i < 3; i++) await batch(events, batchKey)
    const other = await call('POST', '/public/track/batch', { events: events.slice(1) }, batchKey)
    t.equal(other.statusCode, 409)
    const names = (await storedOf(client, user)).map(([name]) => name)
    t.same(names.toSorted(), ['a', 'b', 'plain'])
  })

  t.test('exports have it last in every format, and in JSON only if there is one', async () => {
    const user = randomName('user')
    await batch([
      { event: 'with', distinct_id: user, insert_id: 'a"b' },
      { event: 'without', distinct_id: user },
    ])
    const read = async (format: string) =>
      (await call('GET', `/public/events?distinct_id=${encodeURIComponent(user)}&format=${format}`)).body
    const [one = '', two = ''] = (await read('ndjson')).split('\n')
    t.match(one, /,"timestamp":\d+,"insert_id":"a\\"b"}$/)
    t.match(two, /,"timestamp":\d+}$/)
    const [header, first = '', second = ''] = (await read('csv')).split('\r\n')
    t.equal(header, '"eventId","event","distinct_id","properties","timestamp","insert_id","session_id","context"')
    t.match(first, /,"a""b","",""$/)
    t.match(second, /,\d+,"","",""$/)
  })
})
