import t from 'tap'
import { randomName, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { listRoutes } from '../list-routes.js'
import { newProject } from '../shared-app.js'
import { EXACT, eventCalls, idOf, idsOf, isRefused, pageOf } from './event-calls.js'

t.test('pages of events', async (t) => {
  const client = await newProject()
  const { call } = client
  const { user, track, trackBatch, put, remove, stored } = eventCalls(client)

  t.test('a new project has no events', async (t) => {
    const response = await call('GET', '/public/events')
    t.equal(response.statusCode, 200)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    t.equal(
      response.body,
      '{"status":1,"error":null,"events":[],"page":1,"limit":50,"hasMore":false,"next":null,"pending":0}',
    )
  })

  t.test('an event and a page have exactly these fields', async (t) => {
    const distinct_id = user()
    const eventId = await track(distinct_id, 'signup', { timestamp: 1588628831000.25, properties: { plan: 'pro' } })
    const response = await call('GET', `/public/events?distinct_id=${distinct_id}`)
    const event = `{"eventId":"${eventId}","event":"signup","distinct_id":"${distinct_id}","properties":{"plan":"pro"},"timestamp":1588628831000.25}`
    t.equal(
      response.body,
      `{"status":1,"error":null,"events":[${event}],"page":1,"limit":50,"hasMore":false,"next":null,"pending":0}`,
    )
  })

  t.test('events are in the order of acceptance, whatever their timestamps', async (t) => {
    const distinct_id = user()
    const wanted: string[] = []
    for (const [n, timestamp] of [5, 9_999_999_999_999, 0, undefined].entries()) {
      const one = `single${n}`
      await track(distinct_id, one, { timestamp })
      await trackBatch(distinct_id, 3, (i) => ({ event: `batch${n}-${i}`, timestamp: 100 - i }))
      const keyed = { event: `keyed${n}`, distinct_id, timestamp }
      await call('POST', '/public/track', keyed, { 'idempotency-key': randomName('key') })
      wanted.push(one, `batch${n}-0`, `batch${n}-1`, `batch${n}-2`, `keyed${n}`)
      if (n === 2) await stored(distinct_id)
    }
    const events = await stored(distinct_id)
    t.strictSame(
      events.map(({ event }) => event),
      wanted,
    )
    t.strictSame(idsOf(await stored(distinct_id)), idsOf(events), 'the same again')
    t.strictSame(idsOf(events), idsOf(events).sort())
  })

  t.test('pages and cursors return each event exactly once', async (t) => {
    const distinct_id = user()
    const count = 11
    await trackBatch(distinct_id, count)
    const wanted = idsOf(await stored(distinct_id))
    for (const limit of [4, 11, 10_000]) {
      const byPage: string[] = []
      const byCursor: string[] = []
      let cursor = ''
      for (let page = 1; page <= Math.ceil(count / limit); page++) {
        const isLast = page === Math.ceil(count / limit)
        const answer = await pageOf(client, `limit=${limit}&page=${page}&distinct_id=${distinct_id}`)
        byPage.push(...idsOf(answer.events))
        t.match(answer, { page, limit, hasMore: !isLast, pending: 0, next: isLast ? null : /^[\w-]+$/ })
        const continued = await pageOf(client, `limit=${limit}&distinct_id=${distinct_id}${cursor}`)
        byCursor.push(...idsOf(continued.events))
        t.equal(continued.hasMore, !isLast)
        t.equal(continued.next, answer.next)
        cursor = `&cursor=${continued.next}`
      }
      t.strictSame(byPage, wanted, `pages of ${limit}`)
      t.strictSame(byCursor, wanted, `cursors of ${limit}`)
    }
    const beyond = await pageOf(client, `limit=7&page=5&distinct_id=${distinct_id}`)
    t.match(beyond, { page: 5, limit: 7, hasMore: false, next: null, events: [] })
    t.equal(beyond.events.length, 0)
    const far = await pageOf(client, `limit=10000&page=999999999&distinct_id=${distinct_id}`)
    t.strictSame([far.events, far.hasMore, far.next], [[], false, null])
  })

  t.test('events that arrive during a walk are at its end', async (t) => {
    for (const by of ['page', 'cursor'] as const) {
      const distinct_id = user()
      const sent: string[] = []
      const send = async () => sent.push(await track(distinct_id, `e${sent.length}`, { timestamp: 1000 - sent.length }))
      for (let n = 0; n < 12; n++) await send()
      const seen: string[] = []
      let query = ''
      for (let page = 1; ; page++) {
        const answer = await pageOf(client, `limit=5&distinct_id=${distinct_id}${query}`)
        seen.push(...idsOf(answer.events))
        if (!answer.hasMore) break
        if (page < 5) await Promise.all([send(), send(), send()])
        query = by === 'page' ? `&page=${page + 1}` : `&cursor=${answer.next}`
      }
      t.strictSame(seen, sent.sort(), by)
      t.equal(seen.length, 24)
    }
  })

  t.test('a walk during many writes skips and repeats nothing', async (t) => {
    const distinct_id = user()
    const sent: string[] = []
    let isWriting = true
    const writers = Promise.all(
      Array.from({ length: 4 }, async () => {
        // Fewer than one page of stored() holds.
        while (isWriting && sent.length < 1000)
          sent.push(await track(distinct_id, 'e', { timestamp: 1e12 + Math.round(Math.random() * 1e12) }))
      }),
    )
    const seen: string[] = []
    let cursor = ''
    await until('40 events to be seen', async () => {
      const { events, next } = await pageOf(client, `limit=7&distinct_id=${distinct_id}${cursor}`)
      // At the end: this page is not full yet, so it is requested again.
      if (!next) return false
      seen.push(...idsOf(events))
      cursor = `&cursor=${next}`
      return seen.length >= 40
    })
    isWriting = false
    await writers
    const all = idsOf(await stored(distinct_id))
    t.strictSame(all, [...sent].sort())
    t.strictSame(seen, all.slice(0, seen.length))
  })

  t.test('an event is in the next response after its own', async (t) => {
    const distinct_id = user()
    for (let n = 1; n <= 3; n++) {
      const id = await track(distinct_id)
      const { events, pending } = await pageOf(client, `distinct_id=${distinct_id}`)
      t.equal(events.at(-1)?.eventId, id)
      t.strictSame([events.length, pending], [n, 0])
    }
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        const id = await track(distinct_id)
        t.ok(idsOf(await stored(distinct_id)).includes(id), 'also when many do so at the same time')
      }),
    )
  })

  t.test('a walk from the newest event excludes events that arrive during it', async (t) => {
    for (const by of ['page', 'cursor'] as const) {
      const distinct_id = user()
      await trackBatch(distinct_id, 12)
      const wanted = idsOf(await stored(distinct_id)).reverse()
      for (const round of [1, 2]) {
        const seen: string[] = []
        let query = ''
        for (let page = 1; ; page++) {
          const answer = await pageOf(client, `order=desc&limit=5&distinct_id=${distinct_id}${query}`)
          seen.push(...idsOf(answer.events))
          if (!answer.hasMore) break
          wanted.push(await track(distinct_id))
          query = by === 'page' ? `&page=${page + 1}` : `&cursor=${answer.next}`
        }
        t.strictSame(seen, wanted.slice(0, round === 1 ? 12 : 14), `by ${by}, round ${round}`)
        wanted.splice(0, wanted.length, ...idsOf(await stored(distinct_id)).reverse())
      }
    }
  })

  t.test('an event is found by its id, byte for byte, even before it is stored', async (t) => {
    const one = (id: string) => call('GET', `/public/events/${encodeURIComponent(id)}`)
    for (const text of EXACT) {
      const response = await call('POST', '/public/track', `{"event":"e","distinct_id":"é","properties":${text}}`)
      const id = idOf(response)
      const found = await one(id)
      t.equal(found.headers['content-type'], 'application/json; charset=utf-8')
      const [head = '', tail = ''] = found.body.split(text)
      t.equal(head, `{"status":1,"error":null,"event":{"eventId":"${id}","event":"e","distinct_id":"é","properties":`)
      t.match(tail, /^,"timestamp":\d+}}$/)
      t.equal((await one(id.toUpperCase())).body, found.body)
    }
    const id = await track(user())
    t.equal((await put(id, { edited: 1 })).statusCode, 200)
    t.strictSame((await one(id)).json().event.properties, { edited: 1 })
    t.equal((await remove(id)).statusCode, 200)
    for (const unknown of [id, '%', 'x'.repeat(4000)]) isRefused(t, await one(unknown), 404, 'not_found')
  })

  t.test('a cursor resumes even if its event was deleted', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 4)
    const ids = idsOf(await stored(distinct_id))
    const { next } = await pageOf(client, `limit=2&distinct_id=${distinct_id}`)
    t.equal((await remove(ids[2] ?? '')).statusCode, 200)
    const rest = await pageOf(client, `limit=2&distinct_id=${distinct_id}&cursor=${next}`)
    t.strictSame([idsOf(rest.events), rest.hasMore], [[ids[3]], false])
  })
})

t.test('parameters for pages, order and filters', async (t) => {
  const client = await newProject()
  const { call, app, projectId } = client
  const { user, track, trackBatch, put, remove, stored } = eventCalls(client)

  t.test('a page may have any number from 1', async (t) => {
    for (const page of ['1000000001', '9007199254740991']) {
      const response = await call('GET', `/public/events?page=${page}`)
      t.match(response.json(), { status: 1, events: [], hasMore: false, next: null })
      t.equal(response.statusCode, 200, page)
    }
  })

  t.test('a page has 50 events by default', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 51)
    const first = await pageOf(client, `distinct_id=${distinct_id}`)
    t.strictSame([first.events.length, first.page, first.limit, first.hasMore], [50, 1, 50, true])
    const second = await pageOf(client, `distinct_id=${distinct_id}&page=2`)
    t.strictSame([second.events.length, second.page, second.limit, second.hasMore], [1, 2, 50, false])
  })

  t.test('a page can end next to properties of any size', async (t) => {
    const distinct_id = user()
    const sizes = [0, 1, 20, 35, 36, 37, 38, 100, 4_000, 60_000, 70_000, 5, 250_000, 3, 0, 0]
    for (const size of sizes) await track(distinct_id, 'e', { properties: { x: 'y'.repeat(size) } })
    for (const limit of [1, 3, 16]) {
      const seen: number[] = []
      for (let cursor = ''; ; ) {
        const answer = await pageOf(client, `limit=${limit}&distinct_id=${distinct_id}${cursor}`)
        seen.push(...answer.events.map(({ properties }) => String(properties.x).length))
        if (!answer.next) break
        cursor = `&cursor=${answer.next}`
      }
      t.strictSame(seen, sizes, `pages of ${limit}`)
    }
  })

  t.test('values out of range are refused', async (t) => {
    const wrong: Record<string, string[]> = {
      limit: ['0', '10001', '-1', '1.5', '', '1e1', '9'.repeat(400)],
      page: ['0', 'abc'],
      cursor: ['', 'abc', '!', 'A'.repeat(22), '00000000-0000-7000-8000-000000000000', 'A'.repeat(5000), "'"],
      event: ['', 'x'.repeat(256)],
      distinct_id: ['', 'x'.repeat(256)],
      from: ['', '2020-01-01'],
      to: ['-1'],
    }
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const response = await call('GET', `/public/events?${name}=${encodeURIComponent(value)}`)
        t.comment(`${name}=${value.slice(0, 40)}`)
        isRefused(t, response, 400, 'invalid_request', `/${name}`)
      }
      isRefused(t, await call('GET', `/public/events?${name}=1&${name}=1`), 400, 'invalid_request', `/${name}`)
    }
    const both = await call('GET', '/public/events?limit=0&page=0')
    t.strictSame(
      both
        .json()
        .details.map(({ path }: { path: string }) => path)
        .sort(),
      ['/limit', '/page'],
    )
    t.equal((await call('GET', '/public/events?limit=%31&format=json')).statusCode, 200)
  })

  t.test('an unknown parameter of any read is refused by name, never by value', async (t) => {
    const id = await track(user())
    const reads = listRoutes(app).filter((name) => name.startsWith('GET /public/'))
    for (const read of reads) {
      const url = read.slice('GET '.length).replace(':eventId', id).replace(/:\w+/, 'x')
      const needed = url.endsWith('/values') ? '&field=event' : ''
      for (const name of ['apiKey', '__proto__', 'a/b', 'x&x']) {
        const response = await call('GET', `${url}?${name}=${SECRET_KEY}${needed}`)
        isRefused(t, response, 400, 'invalid_request', `/${name.replace('/', '~1').replace('&x', '')}`)
        t.match(response.json().error, /is unknown: this call takes \w/)
        t.notMatch(response.body, SECRET_KEY)
      }
      const unauthorized = await app.inject({ url: `${url}?apiKey=${SECRET_KEY}` })
      isRefused(t, unauthorized, 401, 'unauthorized')
      t.equal((await call('HEAD', `${url}?evnt=1`)).statusCode, 400, 'HEAD too')
    }
    const response = await call('GET', '/public/events?evnt=e&limit=0')
    t.strictSame(
      response.json().details.map(({ path }: { path: string }) => path),
      ['/evnt', '/limit'],
    )
    t.match(response.json().error, '/evnt is unknown: this call takes limit, page, cursor, event, distinct_id,')
  })

  t.test('a parameter that is given twice is refused as such', async (t) => {
    for (const name of ['limit', 'page', 'cursor', 'event', 'from', 'order', 'format']) {
      const response = await call('GET', `/public/events?${name}=1&${name}=1`)
      isRefused(t, response, 400, 'invalid_request', `/${name}`)
      t.match(response.json(), { error: `/${name} is given more than once.`, details: { length: 1 } })
    }
    const several = await call('GET', '/public/events?evnt=1&evnt=2&limit=1&limit=2&page=0')
    t.match(several.json().details, [
      { path: '/evnt', message: /is unknown/ },
      { path: '/limit', message: /given more than once/ },
      { path: '/page', message: /whole number/ },
    ])
  })

  t.test('a call with an unknown parameter deletes nothing', async (t) => {
    const id = await track(user())
    const deletions = listRoutes(app).filter((name) => name.startsWith('DELETE /public/'))
    t.equal(deletions.length, 8)
    for (const deletion of deletions) {
      const url = deletion
        .slice('DELETE '.length)
        .replace(':eventId', id)
        .replace(':project', projectId)
        .replace(/:\w+/, 'x')
      isRefused(t, await call('DELETE', `${url}?dry_run=true`), 400, 'invalid_request', '/dry_run')
    }
    t.equal((await call('GET', `/public/events/${id}`)).statusCode, 200)
  })

  t.test('order=desc is the reverse, by pages and by cursors, in every format', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 11)
    const single = await track(distinct_id)
    const wanted = idsOf(await stored(distinct_id)).reverse()
    t.equal(wanted[0], single)
    for (const limit of [5, 12, 13]) {
      const query = `order=desc&limit=${limit}&distinct_id=${distinct_id}`
      const byPage: string[] = []
      const byCursor: string[] = []
      let cursor = ''
      for (let page = 1; page <= Math.ceil(12 / limit); page++) {
        const answer = await pageOf(client, `${query}&page=${page}`)
        byPage.push(...idsOf(answer.events))
        const continued = await pageOf(client, `${query}${cursor}`)
        byCursor.push(...idsOf(continued.events))
        t.equal(continued.next, answer.next)
        t.equal(answer.hasMore, page < Math.ceil(12 / limit))
        for (const format of ['ndjson', 'csv']) {
          const rows = await call('GET', `/public/events?${query}${cursor}&format=${format}`)
          t.strictSame(rows.body.match(/[\da-f]{8}-[\da-f-]{27}/g), idsOf(answer.events))
          t.equal(rows.headers['x-next-cursor'] ?? null, answer.next)
        }
        cursor = `&cursor=${continued.next}`
      }
      t.strictSame(byPage, wanted, `pages of ${limit}`)
      t.strictSame(byCursor, wanted, `cursors of ${limit}`)
    }
    t.equal((await remove(wanted[3] ?? '')).statusCode, 200)
    t.equal((await put(wanted[4] ?? '', { edited: 1 })).statusCode, 200)
    const { events } = await pageOf(client, `order=desc&limit=4&distinct_id=${distinct_id}`)
    t.strictSame(idsOf(events), [...wanted.slice(0, 3), wanted[4]])
    t.strictSame(events[3]?.properties, { edited: 1 })
  })

  t.test('a cursor resumes in its own order, and in no other', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 5)
    const ids = idsOf(await stored(distinct_id))
    const query = `limit=2&distinct_id=${distinct_id}`
    const down = (await pageOf(client, `${query}&order=desc`)).next
    const up = (await pageOf(client, query)).next
    t.strictSame(idsOf((await pageOf(client, `${query}&cursor=${down}`)).events), [ids[2], ids[1]])
    t.strictSame(idsOf((await pageOf(client, `${query}&cursor=${up}`)).events), [ids[2], ids[3]])
    for (const wrong of [`order=desc&cursor=${up}`, `order=asc&cursor=${down}`]) {
      isRefused(t, await call('GET', `/public/events?${wrong}`), 400, 'invalid_request', '/cursor')
    }
    isRefused(t, await call('GET', '/public/events?order=newest'), 400, 'invalid_request', '/order')
  })

  t.test('a changed cursor is refused or harmless', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 3)
    const { next } = await pageOf(client, `limit=1&distinct_id=${distinct_id}`)
    t.match(next, /^[\w-]{22}$/)
    for (const cursor of [`${next}A`, `${next}=`, String(next).slice(1), String(next).slice(0, -1), ` ${next}`]) {
      const response = await call('GET', `/public/events?cursor=${encodeURIComponent(cursor)}`)
      isRefused(t, response, 400, 'invalid_request', '/cursor')
    }
  })

  t.test('filters by any event and distinct_id', async (t) => {
    const given = ["it's", '\\N', 'a\nb\t', 'NULL', '%', '_', ' 😀 ', '\u0000', '"']
    const others = user()
    for (const name of given) {
      await track(others, name)
      await track(`who ${name}`, 'filtered')
      await track(name, 'filtered as a whole')
    }
    for (const name of given) {
      const byEvent = await pageOf(client, new URLSearchParams({ event: name }).toString())
      t.strictSame(
        byEvent.events.map(({ event, distinct_id }) => [event, distinct_id]),
        [[name, others]],
        escape(name),
      )
      for (const [distinct_id, event] of [
        [`who ${name}`, 'filtered'],
        [name, 'filtered as a whole'],
      ] as const) {
        const { events } = await pageOf(client, new URLSearchParams({ distinct_id }).toString())
        t.strictSame(
          events.map((found) => [found.event, found.distinct_id]),
          [[event, distinct_id]],
          escape(name),
        )
      }
      const neither = await pageOf(client, new URLSearchParams({ event: name, distinct_id: name }).toString())
      t.strictSame(neither.events, [])
    }
  })

  t.test('filters by time, including the start and excluding the end', async (t) => {
    const distinct_id = user()
    const times = [0, 1000, 1000.5, 1001, 1588628831000, 9_999_999_999_999]
    for (const timestamp of [...times].reverse()) await track(distinct_id, 'e', { timestamp })
    const found = async (query: string) =>
      (await pageOf(client, `distinct_id=${distinct_id}&${query}`)).events.map(({ timestamp }) => timestamp).reverse()
    t.strictSame(await found('from=0'), times)
    t.strictSame(await found('from=1000'), times.slice(1))
    t.strictSame(await found('from=1001'), times.slice(3))
    t.strictSame(await found('to=1000'), [0])
    t.strictSame(await found('to=1001'), [0, 1000, 1000.5])
    t.strictSame(await found('from=1000&to=1001'), [1000, 1000.5])
    t.strictSame(await found('from=1000&to=1000'), [])
    t.strictSame(await found('from=1001&to=1000'), [])
    t.strictSame(await found('to=0'), [])
    t.strictSame(await found('to=9999999999999'), times.slice(0, -1))
    t.strictSame(await found('from=9999999999999&to=10000000000000'), [9_999_999_999_999])
    const first = await pageOf(client, `distinct_id=${distinct_id}&from=1000&to=1588628831001&limit=3`)
    t.equal(first.hasMore, true)
    const second = await pageOf(client, `distinct_id=${distinct_id}&from=1000&to=1588628831001&cursor=${first.next}`)
    t.strictSame(
      [...first.events, ...second.events].map(({ timestamp }) => timestamp),
      [1588628831000, 1001, 1000.5, 1000],
    )
  })
})

t.test('pending counts events that the store does not have within 5 s', async (t) => {
  // There is no writer, so accepted events stay in the journal.
  const client = await startApp(t, { ...(await settingsFor(t, 'servers')), ROLE: 'api' })
  const events = [1, 2, 3].map((n) => ({ event: `e${n}`, distinct_id: 'pending' }))
  t.equal((await client.call('POST', '/public/track/batch', { events })).statusCode, 200)
  const tracked = await client.call('POST', '/public/track', events[0])
  const [response, rows, edit] = await Promise.all([
    client.call('GET', '/public/events'),
    client.call('GET', '/public/events?format=ndjson'),
    client.call('PUT', `/public/events/${idOf(tracked)}`, { properties: {} }),
  ])
  t.equal(
    response.body,
    '{"status":1,"error":null,"events":[],"page":1,"limit":50,"hasMore":false,"next":null,"pending":4}',
  )
  t.equal(rows.body, '')
  t.match(rows.headers, { 'x-pending': '4', 'x-has-more': 'false' })
  isRefused(t, edit, 503, 'unavailable')
  t.match(edit.headers['retry-after'], /^\d+$/)
})
