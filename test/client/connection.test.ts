import t, { type Test } from 'tap'
import { Connection, type ConnectionOptions } from '../../src/client/connection.js'
import { freePort, SECRET_KEY } from '../helper.js'
import { answer, cut, cutInside, DONE, type Fault, failure, faultyServer, silence } from './faulty-server.js'

const AT_ONCE = { attempts: 4, baseDelayMs: 0, maxDelayMs: 0 }

async function serverAndConnection(t: Test, answers: Fault[]) {
  const { url, received } = await faultyServer(t, answers)
  const connect = (options: Partial<ConnectionOptions> = {}) =>
    new Connection({ url, secretKey: SECRET_KEY, retry: AT_ONCE, ...options })
  return { url, received, connect }
}

const track = { method: 'POST', path: '/public/track', body: '{"event":"a"}', idempotencyKey: 'k-1' } as const

t.test('transient failures are retried with the same bytes and the same key', async (t) => {
  const faults = {
    'the connection is cut': cut,
    'the answer is cut': cutInside,
    'the journal is full': failure(503, 'overloaded', { 'retry-after': '0' }),
    'too many requests': failure(429, 'rate_limited', { 'retry-after': new Date().toUTCString() }),
    'a fault inside': failure(500, 'internal'),
    'a proxy without its server': answer(502, '<html>Bad Gateway</html>'),
  }
  for (const [name, fault] of Object.entries(faults)) {
    const { connect, received } = await serverAndConnection(t, [fault, fault, answer(200, DONE)])
    t.same((await connect().call(track)).value, { status: 1, error: null }, name)
    t.equal(received.length, 3, name)
    for (const { method, url, headers, body } of received) {
      t.match(
        { method, url, headers, body },
        {
          method: 'POST',
          url: '/public/track',
          headers: { 'idempotency-key': 'k-1', 'x-api-key': SECRET_KEY, 'content-type': 'application/json' },
          body: track.body,
        },
      )
    }
  }
})

t.test('a refusal is thrown immediately, with all details', async (t) => {
  const details = [{ path: '/event', message: 'must be a string' }]
  const body = JSON.stringify({ status: 0, error: 'It is wrong.', code: 'invalid_request', details })
  const { connect, received } = await serverAndConnection(t, [answer(400, body, { 'x-request-id': 'r-7' })])
  await t.rejects(connect().call(track), {
    name: 'TallyhouseError',
    message: 'It is wrong.',
    code: 'invalid_request',
    status: 400,
    details,
    requestId: 'r-7',
  })
  t.equal(received.length, 1)
})

t.test('a 200 that does not come from Tallyhouse is an error', async (t) => {
  for (const other of [answer(200, '<html>Welcome'), answer(200, '[]'), answer(204, ''), answer(200, '{"status":0}')]) {
    const { connect, received } = await serverAndConnection(t, [other])
    await t.rejects(connect().call(track), { code: 'unexpected_answer' })
    t.equal(received.length, 1)
  }
  const elsewhere = await serverAndConnection(t, [answer(200, DONE)])
  const { connect } = await serverAndConnection(t, [answer(307, '', { location: `${elsewhere.url}/public/track` })])
  await t.rejects(connect().call(track), { code: 'unexpected_answer', status: 307 })
  t.equal(elsewhere.received.length, 0, 'the key goes to no other host')
})

t.test('each attempt has a timeout, and a signal aborts the call', async (t) => {
  const { connect, received } = await serverAndConnection(t, [silence, answer(200, DONE)])
  await connect({ timeoutMs: 1_000 }).call(track)
  t.ok(received.length >= 2)
  await connect({ timeoutMs: Number.POSITIVE_INFINITY, retry: { attempts: 1 } }).call(track)

  const stop = new AbortController()
  const mute = await serverAndConnection(t, [() => stop.abort('enough')])
  await t.rejects(mute.connect().call(track, { signal: stop.signal }), { code: 'aborted', cause: 'enough' })
  await t.rejects(mute.connect().call(track, { signal: AbortSignal.abort('before') }), { code: 'aborted' })
  t.equal(mute.received.length, 1)
})

t.test('all attempts are used if no service listens', async (t) => {
  const connection = new Connection({
    url: `http://127.0.0.1:${await freePort()}`,
    secretKey: SECRET_KEY,
    retry: AT_ONCE,
  })
  await t.rejects(connection.call(track), { code: 'network', status: null, cause: Error })
})

t.test('Connection accepts a URL with a path and refuses unusable options', async (t) => {
  const { url, received } = await serverAndConnection(t, [answer(200, DONE)])
  await new Connection({ url: `${url}/analytics/`, secretKey: SECRET_KEY }).call(track)
  t.equal(received[0]?.url, '/analytics/public/track')
  for (const bad of ['', 'tallyhouse', 'ftp://host']) {
    t.throws(() => new Connection({ url: bad, secretKey: SECRET_KEY }), { message: /url must be/ }, bad)
  }
  t.throws(() => new Connection({ url, secretKey: '' }), { message: /secretKey must be/ })
  t.throws(() => new Connection({ url, secretKey: 'pk_x' }), { message: /needs the secret key/ })
})

t.test('not_found is a success for a retried delete whose response was lost', async (t) => {
  const gone = failure(404, 'not_found')
  for (const [fault, isDone] of [
    [cut, true],
    [failure(500, 'internal'), true],
    [failure(503, 'unavailable'), false],
  ] as const) {
    const { connect } = await serverAndConnection(t, [fault, gone])
    const deleted = connect().delete('/public/events/x')
    if (isDone) await deleted
    else await t.rejects(deleted, { code: 'not_found' })
  }
})
