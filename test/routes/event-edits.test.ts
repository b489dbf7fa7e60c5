import t from 'tap'
import type { StoredEvent } from '../helper.js'
import { newProject } from '../shared-app.js'
import { DONE, EXACT, eventCalls, idsOf, isRefused, propertiesIn } from './event-calls.js'

t.test('edits and deletions of events', async (t) => {
  const client = await newProject()
  const { call, app, keys } = client
  const { user, track, trackBatch, put, putText, remove, stored } = eventCalls(client)

  t.test('PUT replaces the properties with the exact text', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, EXACT.length + 1, (n) => ({
      properties: { old: n },
      ...(n % 2 === 0 && { session_id: `visit ${n}` }),
    }))
    const before = await stored(distinct_id)
    for (const [n, text] of EXACT.entries()) {
      const response = await putText(before[n]?.eventId ?? '', text)
      t.equal(response.statusCode, 200)
      t.equal(response.body, DONE)
    }
    const response = await call('GET', `/public/events?distinct_id=${distinct_id}`)
    const wanted = [...EXACT, `{"old":${EXACT.length}}`]
    for (const [n, text] of propertiesIn(response).entries()) t.ok(text === wanted[n], `the text ${n}`)
    t.strictSame(
      response.json().events.map(({ properties: _, ...rest }: StoredEvent) => rest),
      before.map(({ properties: _, ...rest }) => rest),
      'nothing else in them has changed',
    )
  })

  t.test('many concurrent small edits', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 150)
    const ids = idsOf(await stored(distinct_id))
    const answers = await Promise.all(ids.map((id, n) => put(id, { n, x: 'x'.repeat(500) })))
    t.strictSame([...new Set(answers.map(({ statusCode }) => statusCode))], [200])
    t.strictSame(
      (await stored(distinct_id)).map(({ properties }) => properties.n),
      ids.map((_, n) => n),
    )
  })

  t.test('many concurrent large edits', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 6)
    const ids = idsOf(await stored(distinct_id))
    const answers = await Promise.all(ids.map((id, n) => put(id, { n, x: `${n}`.repeat(900_000).slice(0, 900_000) })))
    t.strictSame(
      answers.map(({ statusCode }) => statusCode),
      ids.map(() => 200),
    )
    t.strictSame(
      (await stored(distinct_id)).map(({ properties: { n, x } }) => [n, String(x).length, String(x).slice(0, 2)]),
      ids.map((_, n) => [n, 900_000, `${n}${n}`.slice(0, 2)]),
    )
  })

  t.test('PUT reads its body like every call', async (t) => {
    const distinct_id = user()
    const id = await track(distinct_id, 'e', { properties: { kept: true } })
    for (const body of ['{}', '{"properties":null}', '{"properties":[]}', '{"properties":"{}"}', '{"Properties":{}}']) {
      isRefused(t, await call('PUT', `/public/events/${id}`, body), 400, 'invalid_request', '/properties')
    }
    for (const body of ['[]', 'null', '1']) {
      isRefused(t, await call('PUT', `/public/events/${id}`, body), 400, 'invalid_request', '')
    }
    isRefused(t, await call('PUT', `/public/events/${id}`, '{"properties":{}'), 400, 'invalid_json')
    isRefused(t, await call('PUT', `/public/events/${id}`, Buffer.from([0x7b, 0xff, 0x7d])), 400, 'invalid_json')
    const text = await call('PUT', `/public/events/${id}`, '{"properties":{}}', { 'content-type': 'text/plain' })
    isRefused(t, text, 415, 'unsupported_media_type')
    const bodiless = await app.inject({
      method: 'PUT',
      url: `/public/events/${id}`,
      headers: { 'x-api-key': keys.secret },
    })
    t.equal(bodiless.statusCode, 400)
    t.strictSame((await stored(distinct_id))[0]?.properties, { kept: true })

    for (const [body, properties] of [
      ['{"event":"other","distinct_id":1,"properties":{"a":1},"timestamp":"x"}', '{"a":1}'],
      ['{"properties":{"a":1},"properties":{"a":2.0}}', '{"a":2.0}'],
      ['{"propert\\u0069es":{"\\u0061":3.0}}', '{"\\u0061":3.0}'],
      [`{"apiKey":"${keys.secret}","properties":{"a":4.0}}`, '{"a":4.0}'],
      [`{"properties":{"properties":{"a":5.0}},"x":{"properties":{}}}`, '{"properties":{"a":5.0}}'],
    ] as const) {
      t.equal((await call('PUT', `/public/events/${id}`, body)).statusCode, 200, body)
      const response = await call('GET', `/public/events?distinct_id=${distinct_id}`)
      t.strictSame(propertiesIn(response), [properties])
      t.match(response.json().events, [{ event: 'e', distinct_id }])
    }
  })

  t.test('DELETE deletes once', async (t) => {
    const distinct_id = user()
    await trackBatch(distinct_id, 3)
    const ids = idsOf(await stored(distinct_id))
    const id = ids[1] ?? ''
    const response = await remove(id)
    t.equal(response.statusCode, 200)
    t.equal(response.body, DONE)
    t.strictSame(idsOf(await stored(distinct_id)), [ids[0], ids[2]])
    isRefused(t, await remove(id), 404, 'not_found')
    isRefused(t, await put(id, {}), 404, 'not_found')
    t.strictSame(idsOf(await stored(distinct_id)), [ids[0], ids[2]])
  })

  t.test('DELETE may announce JSON without a body', async (t) => {
    const id = await track(user())
    const response = await call('DELETE', `/public/events/${id}`, undefined, { 'content-type': 'application/json' })
    t.equal(response.statusCode, 200, response.body)
  })

  t.test('an unknown id is not found', async (t) => {
    const distinct_id = user()
    const id = await track(distinct_id)
    const last = id.at(-1) === '0' ? '1' : '0'
    const unknown = [
      '018f0000-0000-7000-8000-000000000000',
      'ffffffff-ffff-7fff-bfff-ffffffffffff',
      '3f2504e0-4f89-41d3-9a0c-0305e82c3301',
      `${id.slice(0, -1)}${last}`,
      id.replaceAll('-', ''),
      `${id}0`,
      id.slice(1),
      "' OR 1=1 --",
      '../events',
      '%',
      '\u0000',
      'x'.repeat(4000),
    ]
    for (const text of unknown) {
      for (const response of [await put(encodeURIComponent(text), {}), await remove(encodeURIComponent(text))]) {
        t.comment(escape(text.slice(0, 50)))
        isRefused(t, response, 404, 'not_found')
      }
    }
    for (const response of [await put('', {}), await remove('')]) isRefused(t, response, 404, 'not_found')
    t.strictSame(idsOf(await stored(distinct_id)), [id])
  })

  t.test('an id in upper case is the same id', async (t) => {
    const distinct_id = user()
    const id = await track(distinct_id)
    t.equal((await put(id.toUpperCase(), { a: 1 })).statusCode, 200)
    t.strictSame((await stored(distinct_id))[0]?.properties, { a: 1 })
    t.equal((await remove(id.toUpperCase())).statusCode, 200)
    t.strictSame(await stored(distinct_id), [])
    isRefused(t, await remove(id), 404, 'not_found')
  })

  t.test('an event that is not stored yet can be changed and deleted', async (t) => {
    const distinct_id = user()
    for (let n = 0; n < 2; n++) {
      const [edited, deleted] = await Promise.all([track(distinct_id, `edited${n}`), track(distinct_id, 'deleted')])
      const answers = await Promise.all([put(edited, { n }), remove(deleted)])
      t.strictSame(
        answers.map(({ body }) => body),
        [DONE, DONE],
      )
      const both = await track(distinct_id, 'both')
      t.equal((await put(both, { n })).statusCode, 200)
      t.equal((await remove(both)).statusCode, 200)
      isRefused(t, await put(both, { n }), 404, 'not_found')
      isRefused(t, await remove(deleted), 404, 'not_found')
    }
    t.strictSame(
      (await stored(distinct_id)).map(({ event, properties }) => [event, properties]),
      [0, 1].map((n) => [`edited${n}`, { n }]),
    )
  })

  t.test('many concurrent edits and deletes of different events', async (t) => {
    const distinct_id = user()
    const count = 90
    const ids = await Promise.all(Array.from({ length: count }, (_, n) => track(distinct_id, `e${n}`)))
    const answers = await Promise.all([
      ...ids.map((id, n) => (n % 3 === 0 ? remove(id) : put(id, { edited: n }))),
      trackBatch(distinct_id, 10, (n) => ({ event: `late${n}` })),
      ...ids.map((id, n) => (n % 3 === 0 ? remove(id) : put(id, { edited: n }))),
    ])
    for (const n of ids.keys()) {
      const codes = [answers[n]?.statusCode, answers[count + 1 + n]?.statusCode].sort()
      t.strictSame(codes, n % 3 === 0 ? [200, 404] : [200, 200], `event ${n}`)
    }
    const events = await stored(distinct_id)
    t.strictSame(
      events
        .filter(({ event }) => !event.startsWith('late'))
        .map(({ event, properties }) => `${event} ${properties.edited}`)
        .sort(),
      ids.flatMap((_, n) => (n % 3 === 0 ? [] : [`e${n} ${n}`])).sort(),
    )
    t.equal(events.filter(({ event }) => event.startsWith('late')).length, 10)
  })

  t.test('many concurrent edits of one event leave one of them', async (t) => {
    const distinct_id = user()
    const id = await track(distinct_id, 'e', { properties: { n: -1 } })
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => put(id, { round, n })))
      t.strictSame([...new Set(answers.map(({ body }) => body))], [DONE])
      const [event, ...rest] = await stored(distinct_id)
      t.strictSame(rest, [])
      t.match(event?.properties, { round, n: Number })
      t.strictSame((await stored(distinct_id))[0]?.properties, event?.properties, 'and that one stays')
    }
  })

  t.test('only one of many concurrent deletes of an event finds it', async (t) => {
    const distinct_id = user()
    const id = await track(distinct_id)
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, () => remove(id)),
      ...Array.from({ length: 10 }, (_, n) => put(id, { n })),
      ...Array.from({ length: 10 }, () => remove(id)),
    ])
    const deletes = [...answers.slice(0, 10), ...answers.slice(20)].map(({ statusCode }) => statusCode)
    t.equal(deletes.filter((status) => status === 200).length, 1)
    t.equal(deletes.filter((status) => status === 404).length, 19)
    for (const { statusCode } of answers.slice(10, 20)) t.ok(statusCode === 200 || statusCode === 404)
    t.strictSame(await stored(distinct_id), [])
  })

  t.test('edits persist while others write', async (t) => {
    const distinct_id = user()
    const others = user()
    let isDone = false
    const writers = Promise.all(
      Array.from({ length: 2 }, async () => {
        while (!isDone) await trackBatch(others, 20)
      }),
    )
    const wanted: string[] = []
    for (let n = 0; n < 3; n++) {
      const ids = await Promise.all([0, 1, 2, 3].map((i) => track(distinct_id, `e${n}-${i}`)))
      const answers = await Promise.all(ids.map((id, i) => (i === 3 ? remove(id) : put(id, { n, i }))))
      if (answers.some(({ body }) => body !== DONE)) t.fail(answers.map(({ body }) => body).join())
      wanted.push(...[0, 1, 2].map((i) => `e${n}-${i} ${n} ${i}`))
      const found = (await stored(distinct_id)).map(({ event, properties: { n, i } }) => `${event} ${n} ${i}`)
      if (found.sort().join() !== wanted.sort().join()) {
        t.strictSame(found, wanted)
        break
      }
    }
    isDone = true
    await writers
    t.equal((await stored(distinct_id)).length, 9)
  })
})
