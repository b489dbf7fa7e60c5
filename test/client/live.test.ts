import t from 'tap'
import { Tallyhouse } from '../../src/client/index.js'
import { type Client, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { answer, cut, failure, faultyServer } from './faulty-server.js'

/** Reads a stream in the background. */
function follow<T>(events: AsyncIterable<T>) {
  const seen: T[] = []
  const ended = (async () => {
    for await (const event of events) seen.push(event)
  })()
  return { seen, ended }
}

function send({ call }: Client, event: string, properties: object = {}) {
  return call('POST', '/public/track', { event, distinct_id: 'ada', properties })
}

t.test('a live stream continues through restarts of the service', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const first = await startApp(t, env)
  const url = await addressOf(first)
  const client = new Tallyhouse({ url, secretKey: SECRET_KEY })
  const stop = new AbortController()
  const reasons: (Error | null)[] = []
  const streams = [
    follow(client.live({ signal: stop.signal, onReconnect: (reason) => reasons.push(reason) })),
    follow(client.live({ event: 'b', raw: true, signal: stop.signal })),
    follow(client.live({ event: 'never', signal: stop.signal })),
  ] as const
  await until('the streams', async () => /_live_streams 3$/m.test((await first.call('GET', '/metrics')).body))
  await first.app.close()

  const second = await startApp(t, env)
  await send(second, 'a')
  await second.call('POST', '/public/track', '{"event":"b","distinct_id":"ada","properties":{\n"x": 1.0}}')
  await second.app.listen({ host: '127.0.0.1', port: Number(new URL(url).port) })
  await until('the events in between', () => streams[0].seen.length === 2 && streams[1].seen.length === 1)
  await send(second, 'c')
  await until('the event after it', () => streams[0].seen.length === 3)

  t.strictSame(streams[0].seen, await second.events())
  t.equal(streams[1].seen[0]?.properties, '{\n"x": 1.0}')
  t.strictSame(streams[2].seen, [])
  t.ok(reasons.length >= 1)
  const behind = follow(client.live({ lastEventId: streams[0].seen[0]?.eventId ?? '', signal: stop.signal }))
  await until('the rest', () => behind.seen.length === 2)
  stop.abort()
  await Promise.all([...streams, behind].map(({ ended }) => ended))
  await until('no stream', async () => /_live_streams 0$/m.test((await second.call('GET', '/metrics')).body))
  await second.app.close()
})

t.test('live throws permanent errors and retries others', async (t) => {
  const stream = (body: string) =>
    answer(200, body, { 'content-type': 'text/event-stream', 'x-last-event-id': 'start' })
  const one = 'id: 1\ndata: {"eventId":"1",\ndata: "event":"a"}\n\n'
  const { url, received } = await faultyServer(t, [
    cut,
    failure(503, 'unavailable'),
    stream(': connected\n\n'),
    stream(`${one}id: 2\ndata: {"eventId":"2"`),
    answer(200, '<html>', { 'content-type': 'text/html' }),
  ])
  const { seen, ended } = follow(new Tallyhouse({ url, secretKey: SECRET_KEY }).live({ event: 'a' }))
  await t.rejects(ended, { code: 'unexpected_answer' }, 'not ours')
  t.strictSame(seen, [{ eventId: '1', event: 'a' }], 'no part of an event')
  t.strictSame(
    received.map(({ headers }) => headers['last-event-id']),
    [undefined, undefined, undefined, 'start', '1'],
  )
  t.equal(received[0]?.url, '/public/events/live?event=a')
})

t.test('live yields nothing after an abort, even if it has arrived', async (t) => {
  const events = [1, 2, 3].map((id) => `id: ${id}\ndata: {"eventId":"${id}"}\n\n`)
  const { url } = await faultyServer(t, [answer(200, events.join(''), { 'content-type': 'text/event-stream' })])
  const stop = new AbortController()
  const seen: string[] = []
  for await (const { eventId } of new Tallyhouse({ url, secretKey: SECRET_KEY }).live({ signal: stop.signal })) {
    seen.push(eventId)
    if (eventId === '2') stop.abort()
  }
  t.strictSame(seen, ['1', '2'])
})

t.test('live throws a refusal', async (t) => {
  const { url } = await faultyServer(t, [failure(401, 'unauthorized')])
  await t.rejects(follow(new Tallyhouse({ url, secretKey: SECRET_KEY }).live()).ended, { code: 'unauthorized' })
})
