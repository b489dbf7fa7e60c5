import t, { type Test } from 'tap'
import { Connection } from '../../src/client/connection.js'
import { TallyhouseError } from '../../src/client/errors.js'
import type { TrackEvent } from '../../src/client/event.js'
import { EventQueue, type EventQueueOptions } from '../../src/client/event-queue.js'
import { SECRET_KEY, until } from '../helper.js'
import { answer, cut, DONE, type Fault, failure, faultyServer, type Received } from './faulty-server.js'

const HOUR_MS = 3_600_000

const event = (n: number, more = {}): TrackEvent => ({ event: `e${n}`, distinct_id: 'u', ...more })

const namesIn = ({ body }: Received) => JSON.parse(body).events.map((sent: TrackEvent) => sent.event)

async function queueTo(t: Test, answers: Fault[], options: EventQueueOptions = {}) {
  const { url, received } = await faultyServer(t, answers)
  const drops: [event: TrackEvent, error: TallyhouseError][] = []
  const queue = new EventQueue(new Connection({ url, secretKey: SECRET_KEY }), {
    flushIntervalMs: HOUR_MS,
    queueRetry: { baseDelayMs: 0, maxDelayMs: 0, attempts: 50 },
    onDrop: (...drop) => drops.push(drop),
    ...options,
  })
  t.teardown(() => queue.close(0).catch(() => undefined))
  return { queue, received, drops, names: () => received.map(namesIn) }
}

/** A response that waits for `open()`. */
function gate(then: Fault) {
  const waiting: (() => void)[] = []
  let isOpen = false
  const fault: Fault = (response, request) => {
    if (isOpen) then(response, request)
    else waiting.push(() => then(response, request))
  }
  const open = () => {
    isOpen = true
    for (const go of waiting) go()
  }
  return { fault, open }
}

t.test('a batch is sent at flushAt events, or after flushIntervalMs', async (t) => {
  const bySize = await queueTo(t, [answer(200, DONE)], { flushAt: 3 })
  for (let n = 0; n < 2; n++) bySize.queue.add(event(n))
  await new Promise(setImmediate)
  t.equal(bySize.received.length, 0)
  await bySize.queue.add(event(2))
  t.strictSame(bySize.names(), [['e0', 'e1', 'e2']])

  const byTime = await queueTo(t, [answer(200, DONE)], { flushIntervalMs: 30 })
  byTime.queue.add(event(0))
  await byTime.queue.add(event(1))
  await byTime.queue.add(event(2))
  t.strictSame(byTime.names(), [['e0', 'e1'], ['e2']])
  t.equal(byTime.queue.size, 0)
})

t.test('while a batch is in flight the next one fills, in order, within its limits', async (t) => {
  const { fault, open } = gate(answer(200, DONE))
  const { queue, received, names } = await queueTo(t, [fault], { flushAt: 1 })
  for (let n = 0; n < 2500; n++) queue.add(event(n))
  await until('the first batch', () => received.length === 1)
  t.equal(queue.size, 2500)
  open()
  await queue.flush()
  t.strictSame(
    names().map((batch) => batch.length),
    [1, 1000, 1000, 499],
  )
  t.strictSame(
    names().flat(),
    Array.from({ length: 2500 }, (_, n) => `e${n}`),
  )
  t.equal(new Set(received.map(({ headers }) => headers['idempotency-key'])).size, 4)

  const properties = { text: 'x'.repeat(1000) }
  const bytes = await queueTo(t, [answer(200, DONE)], { maxBatchBytes: 2500 })
  for (let n = 0; n < 5; n++) bytes.queue.add(event(n, { properties }))
  bytes.queue.add(event(5, { properties: { text: 'x'.repeat(5000) } }))
  await bytes.queue.flush()
  t.strictSame(bytes.names(), [['e0', 'e1'], ['e2', 'e3'], ['e4'], ['e5']])
})

t.test('events queued after a batch get their own interval', async (t) => {
  const { fault, open } = gate(answer(200, DONE))
  const { queue, received, names } = await queueTo(t, [fault], { flushAt: 2, flushIntervalMs: 30 })
  queue.add(event(0))
  queue.add(event(1))
  await until('the first batch', () => received.length === 1)
  const late = queue.add(event(2))
  open()
  await late
  t.strictSame(names(), [['e0', 'e1'], ['e2']])
})

t.test('a full queue rejects, calls onDrop, and has room again later', async (t) => {
  for (const limit of [{ maxQueueSize: 3 }, { maxQueueBytes: 200 }]) {
    const { fault, open } = gate(answer(200, DONE))
    const { queue, drops, names } = await queueTo(t, [fault], { flushAt: 1, ...limit })
    for (let n = 0; n < 3; n++) queue.add(event(n))
    await t.rejects(queue.add(event(3)), { code: 'queue_full', message: /queue is full/ })
    queue.add(event(4))
    await new Promise(setImmediate)
    t.match(drops, [
      [{ event: 'e3' }, { code: 'queue_full' }],
      [{ event: 'e4' }, { code: 'queue_full' }],
    ])
    t.equal(queue.dropped, 2)
    open()
    await queue.flush()
    await Promise.all([queue.add(event(5)), queue.flush()])
    t.strictSame(names().flat(), ['e0', 'e1', 'e2', 'e5'])
  }
})

t.test('a batch is retried with the same bytes and the same key', async (t) => {
  const faults = [cut, failure(503, 'overloaded'), failure(429, 'rate_limited'), cut, failure(500, 'internal')]
  const { queue, received } = await queueTo(t, [...faults, answer(200, DONE)])
  queue.add(event(0))
  await queue.flush()
  t.equal(received.length, 6)
  t.equal(new Set(received.map(({ body, headers }) => `${headers['idempotency-key']} ${body}`)).size, 1)
})

t.test('a refused event does not affect the others', async (t) => {
  const refuse: Fault = (response, request) => {
    const at = namesIn(request).flatMap((name: string, i: number) => (name === 'e1' || name === 'e3' ? [i] : []))
    const details = at.map((i: number) => ({ path: `/events/${i}/event`, message: 'no' }))
    const body = JSON.stringify({ status: 0, error: 'No.', code: 'invalid_request', details })
    answer(at.length > 0 ? 400 : 200, at.length > 0 ? body : DONE)(response, request)
  }
  const { queue, drops, names } = await queueTo(t, [refuse])
  const added = [0, 1, 2, 3, 4].map((n) => queue.add(event(n, { properties: '{"n":1.0}', timestamp: n })))
  await t.rejects(queue.flush(), { code: 'invalid_request' })
  t.strictSame(
    (await Promise.allSettled(added)).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  )
  t.strictSame(names()[1], ['e0', 'e2', 'e4'])
  t.strictSame(
    drops.map(([dropped]) => dropped),
    [1, 3].map((n) => ({ event: `e${n}`, distinct_id: 'u', timestamp: n, properties: '{"n":1.0}' })),
    'as they can be tracked again',
  )
})

t.test('a batch that is too large is bisected down to the large event', async (t) => {
  for (const refusal of [failure(413, 'payload_too_large'), failure(400, 'invalid_request')]) {
    const limit: Fault = (response, request) => {
      const fits = request.body.length < 1000
      ;(fits ? answer(200, DONE) : refusal)(response, request)
    }
    const { queue, drops, received, names } = await queueTo(t, [limit])
    for (let n = 0; n < 8; n++) queue.add(event(n, { properties: { text: 'x'.repeat(n === 5 ? 2000 : 300) } }))
    await t.rejects(queue.flush(), { message: 'A sentence.' })
    const taken = names().filter((_names, i) => (received[i]?.body.length ?? 0) < 1000)
    t.strictSame(taken.flat(), ['e0', 'e1', 'e2', 'e3', 'e4', 'e6', 'e7'])
    t.match(drops, [[{ event: 'e5' }, { message: 'A sentence.' }]])
  }
})

t.test('undeliverable events are dropped, and the queue continues', async (t) => {
  const { queue, drops } = await queueTo(t, [failure(401, 'unauthorized'), failure(400, 'odd'), answer(200, DONE)])
  for (const code of ['unauthorized', 'odd']) {
    const lost = queue.add(event(0))
    await t.rejects(queue.flush(), { code })
    await t.rejects(lost, { code })
  }
  t.equal(drops.length, 2)
  t.equal(queue.size, 0)
  queue.add(event(1))
  await queue.flush()

  const away = await queueTo(t, [cut], { queueRetry: { attempts: 3, baseDelayMs: 0, maxDelayMs: 0 } })
  await Promise.all([t.rejects(away.queue.add(event(0)), { code: 'network' }), t.rejects(away.queue.flush())])
  t.equal(away.received.length, 3)
})

t.test('an invalid event is refused immediately, and its promise may be ignored', async (t) => {
  const { queue, drops, names } = await queueTo(t, [answer(200, DONE)])
  queue.add({ event: '', distinct_id: 'u' })
  queue.add(event(1))
  await queue.flush()
  t.strictSame(names(), [['e1']])
  t.match(drops, [[{ event: '' }, { code: 'invalid_request', details: [{ path: '/event' }] }]])
})

t.test('close delivers the queue and accepts no more events', async (t) => {
  const { queue, names } = await queueTo(t, [answer(200, DONE)])
  queue.add(event(0))
  const closed = queue.close(Number.POSITIVE_INFINITY)
  await t.rejects(queue.add(event(1)), { code: 'closed' })
  await closed
  t.strictSame(names(), [['e0']])
})

t.test('close drops undelivered events at its timeout', async (t) => {
  const retry = { attempts: 50, baseDelayMs: HOUR_MS, maxDelayMs: HOUR_MS }
  for (const fault of [cut, () => undefined]) {
    const { queue, drops, received } = await queueTo(t, [fault], { flushAt: 1, queueRetry: retry })
    queue.add(event(0))
    queue.add(event(1))
    await until('the first try', () => received.length === 1)
    await t.rejects(queue.close(20), { code: 'closed', cause: TallyhouseError })
    t.equal(drops.length, 2)
    t.equal(queue.size, 0)
  }
})
