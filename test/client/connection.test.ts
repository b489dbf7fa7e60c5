import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Connection, type ConnectionOptions } from '../../src/client/connection.js'
import { freePort, SECRET_KEY } from '../helper.js'

const AT_ONCE = { attempts: 4, baseDelayMs: 0, maxDelayMs: 0 }
const DONE = '{"status":1,"error":null}'

interface Received {
  method: string | undefined
  url: string | undefined
  headers: IncomingMessage['headers']
  body: string
}

/** A server that is at fault: it answers each request by the next function, and the last one ever after. */
async function faultyServer(t: Test, answers: ((response: ServerResponse) => void)[]) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    received.push({ method: request.method, url: request.url, headers: request.headers, body })
    answers[Math.min(received.length, answers.length) - 1]?.(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const connect = (options: Partial<ConnectionOptions> = {}) =>
    new Connection({ url, secretKey: SECRET_KEY, retry: AT_ONCE, ...options })
  return { url, received, connect }
}

const answer =
  (status: number, body: string, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, headers).end(body)
  }
const failure = (status: number, code: string, headers = {}) =>
  answer(status, JSON.stringify({ status: 0, error: 'A sentence.', code }), headers)
const cut = (response: ServerResponse) => response.destroy()
const cutInside = (response: ServerResponse) => {
  response.writeHead(200, { 'content-length': 1000 }).write('{"status":1')
  setImmediate(() => response.destroy())
}
const silence = () => undefined

const track = { method: 'POST', path: '/public/track', body: '{"event":"a"}', idempotencyKey: 'k-1' } as const

t.test('it tries again, with the same bytes and the same key, through every passing fault', async (t) => {
  const faults = {
    'the connection is cut': cut,
    'the answer is cut': cutInside,
    'the journal is full': failure(503, 'overloaded', { 'retry-after': '0' }),
    'too many requests': failure(429, 'rate_limited', { 'retry-after': new Date().toUTCString() }),
    'a fault inside': failure(500, 'internal'),
    'a proxy without its server': answer(502, '<html>Bad Gateway</html>'),
  }
  for (const [name, fault] of Object.entries(faults)) {
    const { connect, received } = await faultyServer(t, [fault, fault, answer(200, DONE)])
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

t.test('a refusal is told at once, with all that is known', async (t) => {
  const details = [{ path: '/event', message: 'must be a string' }]
  const body = JSON.stringify({ status: 0, error: 'It is wrong.', code: 'invalid_request', details })
  const { connect, received } = await faultyServer(t, [answer(400, body, { 'x-request-id': 'r-7' })])
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

t.test('nothing but a success of Tallyhouse is a success', async (t) => {
  for (const other of [answer(200, '<html>Welcome'), answer(200, '[]'), answer(204, ''), answer(200, '{"status":0}')]) {
    const { connect, received } = await faultyServer(t, [other])
    await t.rejects(connect().call(track), { code: 'unexpected_answer' })
    t.equal(received.length, 1)
  }
  const elsewhere = await faultyServer(t, [answer(200, DONE)])
  const { connect } = await faultyServer(t, [answer(307, '', { location: `${elsewhere.url}/public/track` })])
  await t.rejects(connect().call(track), { code: 'unexpected_answer', status: 307 })
  t.equal(elsewhere.received.length, 0, 'the key goes to no other host')
})

t.test('each try has its time, and a signal ends the call', async (t) => {
  const { connect, received } = await faultyServer(t, [silence, answer(200, DONE)])
  await connect({ timeoutMs: 200 }).call(track)
  t.equal(received.length, 2)

  const stop = new AbortController()
  const mute = await faultyServer(t, [() => stop.abort('enough')])
  await t.rejects(mute.connect().call(track, { signal: stop.signal }), { code: 'aborted', cause: 'enough' })
  await t.rejects(mute.connect().call(track, { signal: AbortSignal.abort('before') }), { code: 'aborted' })
  t.equal(mute.received.length, 1)
})

t.test('where nobody listens, the tries are used up', async (t) => {
  const connection = new Connection({
    url: `http://127.0.0.1:${await freePort()}`,
    secretKey: SECRET_KEY,
    retry: AT_ONCE,
  })
  await t.rejects(connection.call(track), { code: 'network', status: null, cause: Error })
})

t.test('a path in front, and what cannot be used', async (t) => {
  const { url, received } = await faultyServer(t, [answer(200, DONE)])
  await new Connection({ url: `${url}/analytics/`, secretKey: SECRET_KEY }).call(track)
  t.equal(received[0]?.url, '/analytics/public/track')
  for (const bad of ['', 'tallyhouse', 'ftp://host']) {
    t.throws(() => new Connection({ url: bad, secretKey: SECRET_KEY }), { message: /url must be/ }, bad)
  }
  t.throws(() => new Connection({ url, secretKey: '' }), { message: /secretKey must be/ })
  t.throws(() => new Connection({ url, secretKey: 'pk_x' }), { message: /needs the secret one/ })
})
