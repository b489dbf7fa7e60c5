import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { ANY_STORAGE, PUBLIC_KEY, SECRET_KEY, settingsFor, startApp } from '../helper.js'

/** What a response must never contain: a stack trace, SQL, a key, a server path or a library's message. */
const INSIDES =
  /\n\s+at |node_modules|\/work\/|\.[jt]s:|SELECT|INSERT|Code: \d|FST_|ClickHouse|Poco|Unexpected token|sk_test|pk_test/

const CODES: Record<number, string[]> = {
  400: ['invalid_json', 'invalid_request', 'too_many_events', 'not_numeric', 'not_array'],
  401: ['unauthorized'],
  403: ['wrong_key_kind'],
  404: ['not_found'],
  409: ['session_ended', 'session_owner_mismatch', 'idempotency_conflict'],
  413: ['payload_too_large'],
  415: ['unsupported_media_type'],
}

/** Checks that a failure has these fields and no others. */
function hasShape(t: Test, text: string, status: number): void {
  const { status: zero, error, code, details, ...rest } = JSON.parse(text)
  t.equal(zero, 0)
  t.match(error, /\w \w/)
  t.ok((CODES[status] ?? CODES[400])?.includes(code), `${status} ${code}`)
  t.strictSame(rest, {})
  if (details !== undefined) {
    for (const { path, message, ...rest } of details) {
      t.match(path, /^(\/|$)/)
      t.match(message, /\w/)
      t.strictSame(rest, {})
    }
  }
  t.notMatch(text, INSIDES)
}

function isRefused(t: Test, response: LightMyRequestResponse, status: number, code?: string): void {
  t.equal(response.statusCode, status, response.body.slice(0, 200))
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  hasShape(t, response.body, response.statusCode)
  if (code) t.equal(response.json().code, code)
}

for (const storage of ANY_STORAGE) {
  t.test(storage, async (t) => {
    const { call, app } = await startApp(t, { ...(await settingsFor(t, storage)), FACTS: 'off', BODY_LIMIT: '2048' })
    const send = (options: InjectOptions) => app.inject(options)
    const json = { 'content-type': 'application/json' }

    t.test('an unknown path', async (t) => {
      const paths = ['/', '/public', '/public/', '/nothing', '/public/trac', '/public/track/', '/public/track/batch/x']
      const more = [
        '/public/users',
        '/public/events/',
        '/public/events/a/b',
        '/track',
        '/PUBLIC/track',
        '/health',
        '/.env',
      ]
      for (const url of [...paths, ...more]) {
        isRefused(t, await call('POST', url, {}), 404, 'not_found')
        isRefused(t, await send({ method: 'POST', url }), 404, 'not_found')
      }
      for (const url of [...paths, '/track', '/public/events/a/b', '/health', '/public/sessions/']) {
        isRefused(t, await send({ method: 'DELETE', url }), 404, 'not_found')
      }
    })

    t.test('a path that takes other methods says which', async (t) => {
      for (const [method, url, error] of [
        ['GET', '/public/track', 'This path takes POST, but not GET.'],
        ['POST', '/public/events?limit=1', 'This path takes GET, but not POST.'],
        ['POST', '/public/events/7', 'This path takes DELETE, GET and PUT, but not POST.'],
        ['PUT', '/segment/v1/track', 'This path takes POST, but not PUT.'],
        ['POST', '/packages/tallyhouse-client.tgz', 'This path takes GET, but not POST.'],
        ['GET', '/public/trac', 'There is no call at this path.'],
        ['GET', '/public/users/%FF', 'There is no call at this path: it is too long, or its percent-encoding'],
        ['DELETE', '/public/users/%', 'There is no call at this path: it is too long'],
        ['PUT', '/public/users/%', 'This path takes DELETE and GET, but not PUT.'],
        ['GET', `/public/users/${'a'.repeat(5000)}`, 'There is no call at this path: it is too long'],
      ] as const) {
        const response = await send({ method, url })
        t.equal(response.statusCode, 404, url)
        t.match(response.body, error, url)
      }
    })

    t.test('an unknown path with any body', async (t) => {
      const url = '/public/nothing'
      isRefused(t, await call('POST', url, '{"broken'), 404, 'not_found')
      isRefused(t, await call('POST', url, '{"__proto__":{}}'), 404, 'not_found')
      isRefused(t, await call('POST', url, '', json), 404, 'not_found')
      isRefused(t, await call('POST', url, 'text', { 'content-type': 'text/plain' }), 404, 'not_found')
      isRefused(t, await call('POST', url, '<xml/>', { 'content-type': 'application/xml' }), 404, 'not_found')
      isRefused(t, await call('POST', url, { x: 'x'.repeat(3000) }), 404, 'not_found')
    })

    t.test('a wrong method', async (t) => {
      const wrong = [
        ['GET', '/public/track'],
        ['PUT', '/public/track'],
        ['DELETE', '/public/track/batch'],
        ['POST', '/public/events'],
        ['PATCH', '/public/events/018f0000-0000-7000-8000-000000000000'],
        ['POST', '/public/events/018f0000-0000-7000-8000-000000000000'],
        ['GET', '/public/users/identify/x'],
        ['PUT', '/public/sessions/start'],
        ['POST', '/health/live'],
      ] as const
      for (const [method, url] of wrong) {
        isRefused(t, await call(method, url), 404, 'not_found')
        isRefused(t, await send({ method, url }), 404, 'not_found')
      }
    })

    t.test('a malformed URL', async (t) => {
      for (const url of [
        '/%zz',
        '/public/%zz',
        '/public/events/%zz',
        '/public/events/%c3%28',
        '/public/track/%',
        '/%',
      ]) {
        for (const method of ['GET', 'POST', 'PUT', 'DELETE'] as const) {
          const response = await call(method, url)
          isRefused(t, response, response.statusCode === 404 ? 404 : 400)
        }
      }
      for (const url of ['/public/events?limit=%zz', '/public/events?%zz=1', '/public/events?&&=&?']) {
        const response = await call('GET', url)
        if (response.statusCode !== 200) isRefused(t, response, 400, 'invalid_request')
      }
    })

    t.test('a parameter of any length', async (t) => {
      for (const length of [256, 4096, 4097, 10_000]) {
        isRefused(t, await call('DELETE', `/public/events/${'x'.repeat(length)}`), 404, 'not_found')
        isRefused(t, await call('DELETE', `/public/users/${'x'.repeat(length)}`), 404, 'not_found')
        isRefused(t, await call('GET', `/public/sessions/${'x'.repeat(length)}`), 404, 'not_found')
      }
    })

    const posts = [
      '/public/track',
      '/public/track/batch',
      '/public/users/identify',
      '/public/users/profile',
      '/public/sessions/start',
      '/public/sessions/update',
      '/public/sessions/end',
    ]
    const keyFor = (url: string) => ({ 'x-api-key': url.includes('sessions') ? PUBLIC_KEY : SECRET_KEY })

    t.test('broken JSON', async (t) => {
      for (const url of posts) {
        for (const body of ['{', '', 'x', `{"apiKey":"${SECRET_KEY}"`, `{"a":${SECRET_KEY}}`, '{"a":1}}', '\ufeff{}']) {
          isRefused(t, await call('POST', url, body, keyFor(url)), 400, 'invalid_json')
        }
        isRefused(t, await call('POST', url, Buffer.from([0x22, 0xff, 0x22]), keyFor(url)), 400, 'invalid_json')
      }
      const url = '/public/events/018f0000-0000-7000-8000-000000000000'
      isRefused(t, await call('PUT', url, '{'), 400, 'invalid_json')
    })

    t.test('bodies of every JSON type, no body, and fields of every JSON type', async (t) => {
      const values = [null, true, 0, -1, 1e308, '', 'a', [], [[]], [null], {}, { a: null }, { length: 1 }, '__proto__']
      for (const url of posts) {
        for (const value of values) {
          const response = await call('POST', url, JSON.stringify(value), keyFor(url))
          t.ok(response.statusCode < 500, response.body)
          isRefused(t, response, 400, 'invalid_request')
        }
        isRefused(t, await send({ method: 'POST', url, headers: keyFor(url) }), 400)
        const names = ['event', 'events', 'distinct_id', 'session_id', 'properties', 'operations', 'timestamp']
        for (const [n, name] of names.entries()) {
          // Half of them for each field.
          for (const value of values.filter((_, i) => i % 2 === n % 2)) {
            const body = { event: 'e', distinct_id: 'u', session_id: 's', operations: { $set: {} }, [name]: value }
            const response = await call('POST', url, body, keyFor(url))
            t.ok(response.statusCode < 500, `${url} ${name} ${JSON.stringify(value)}: ${response.statusCode}`)
            if (response.statusCode !== 200) hasShape(t, response.body, response.statusCode)
          }
        }
      }
    })

    t.test('bodies that are too large or of another type', async (t) => {
      const large = { event: 'e', distinct_id: 'u', session_id: 's', properties: { x: 'x'.repeat(2100) } }
      for (const url of posts) {
        if (!url.includes('batch')) isRefused(t, await call('POST', url, large, keyFor(url)), 413, 'payload_too_large')
        for (const type of ['text/html', 'application/xml', 'application/x-www-form-urlencoded', 'x']) {
          const response = await call('POST', url, '{}', { ...keyFor(url), 'content-type': type })
          isRefused(t, response, 415, 'unsupported_media_type')
        }
      }
      const event = '/public/events/018f0000-0000-7000-8000-000000000000'
      isRefused(t, await call('PUT', event, large), 413, 'payload_too_large')
      isRefused(t, await call('PUT', event, '{}', { 'content-type': 'text/plain' }), 415, 'unsupported_media_type')
    })

    t.test('text/plain is for session calls only', async (t) => {
      const body = JSON.stringify({ event: 'e', distinct_id: 'u', session_id: 'text', events: [] })
      for (const url of posts) {
        const response = await call('POST', url, body, { ...keyFor(url), 'content-type': 'text/plain;charset=UTF-8' })
        if (url.includes('sessions')) t.equal(response.statusCode, 200, response.body)
        else isRefused(t, response, 415, 'unsupported_media_type')
      }
    })

    t.test('unexpected headers', async (t) => {
      const strange = [
        { 'content-type': 'application/json; charset=latin1' },
        { accept: 'image/png' },
        { 'accept-encoding': 'nonsense' },
        { 'content-encoding': 'nonsense' },
        { 'x-api-key': '\u00ff' },
        { 'if-none-match': '*', range: 'bytes=0-1' },
        { origin: 'null' },
      ]
      for (const headers of strange) {
        for (const url of posts) {
          const response = await call('POST', url, { event: 'e', distinct_id: 'u' }, { ...keyFor(url), ...headers })
          t.ok(response.statusCode < 500, `${JSON.stringify(headers)}: ${response.statusCode}`)
          if (response.statusCode !== 200) hasShape(t, response.body, response.statusCode)
        }
      }
    })

    t.test('malformed requests on the socket', async (t) => {
      await app.listen({ host: '127.0.0.1', port: 0 })
      const { port } = app.server.address() as AddressInfo
      const raw = async (request: string): Promise<string> => {
        const socket = connect(port, '127.0.0.1')
        let answer = ''
        socket.on('data', (chunk) => {
          answer += chunk
          // Some of these requests keep the connection open.
          const [head = '', body] = answer.split('\r\n\r\n')
          if (body?.length === Number(/^content-length: (\d+)$/im.exec(head)?.[1])) socket.destroy()
        })
        socket.on('error', () => undefined)
        socket.write(request)
        await once(socket, 'close')
        return answer
      }
      const host = `host: 127.0.0.1\r\nconnection: close\r\n`
      const key = `x-api-key: ${SECRET_KEY}\r\n`
      const post = (headers: string, body = '') =>
        `POST /public/track HTTP/1.1\r\n${host}${key}content-type: application/json\r\n${headers}\r\n${body}`
      const broken: Record<string, string> = {
        garbage: 'GARBAGE\r\n\r\n',
        'an unknown method': `FETCH /public/events HTTP/1.1\r\n${host}\r\n`,
        'an unknown version': `GET / HTTP/9.9\r\n${host}\r\n`,
        TLS: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
        'no host': 'GET /health/live HTTP/1.1\r\nconnection: close\r\n\r\n',
        'a header without a colon': `GET /health/live HTTP/1.1\r\n${host}nonsense\r\n\r\n`,
        'a length that is no number': post('content-length: abc\r\n'),
        'two lengths': post('content-length: 2\r\ncontent-length: 3\r\n', '{}'),
        'a length and chunks': post('content-length: 2\r\ntransfer-encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
        'a chunk without a size': post('transfer-encoding: chunked\r\n', 'zz\r\n{}\r\n0\r\n\r\n'),
        'a space in the path': `GET /a b HTTP/1.1\r\n${host}\r\n`,
        'a bad path': `GET /%zz HTTP/1.1\r\n${host}${key}\r\n`,
        'a body over the limit': post('content-length: 5000\r\n', 'x'.repeat(5000)),
        'chunks over the limit': post('transfer-encoding: chunked\r\n', `1000\r\n${'x'.repeat(4096)}\r\n0\r\n\r\n`),
        'a method that Node knows': `PURGE /public/track HTTP/1.1\r\n${host}\r\n`,
        'an expectation': `GET /nothing HTTP/1.1\r\n${host}expect: nonsense\r\n\r\n`,
      }
      await Promise.all(
        Object.entries(broken).map(async ([name, request]) => {
          const answer = await raw(request)
          t.test(name, async (t) => {
            const [head = '', body = ''] = answer.split('\r\n\r\n')
            const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1])
            t.match(head, /^content-type: application\/json; charset=utf-8$/im)
            // HTTP/1.1 requires a host header, but nothing here needs one: serving the call is fine as well.
            if (name === 'no host' && body === '{"status":1,"error":null}') return
            t.ok(status >= 400 && status < 500, head)
            t.match(body, /^\{.*\}$/, 'has the body of a failure')
            if (body) hasShape(t, body, status)
          })
        }),
      )

      t.test('headers without an end', async (t) => {
        const answer = await raw(`GET / HTTP/1.1\r\n${host}${'x: y\r\n'.repeat(20_000)}\r\n`)
        const [head = '', body = ''] = answer.split('\r\n\r\n')
        t.match(head, /^HTTP\/1\.1 431 /)
        t.match(JSON.parse(body), { status: 0, code: 'invalid_request' })
      })

      t.test('and the service continues', async (t) => {
        const body = '{"event":"e","distinct_id":"socket"}'
        const answer = await raw(post(`content-length: ${body.length}\r\n`, body))
        t.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
        t.ok(answer.endsWith('\r\n\r\n{"status":1,"error":null}'))
      })
    })
  })
}
