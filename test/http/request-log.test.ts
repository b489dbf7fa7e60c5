import { once } from 'node:events'
import { connect } from 'node:net'
import { Writable } from 'node:stream'
import type { InjectOptions } from 'fastify'
import { type Logger, pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/app.js'
import { loadConfig } from '../../src/config.js'
import { type LeftOut, LogLimit } from '../../src/http/request-log.js'
import type { KeysFound } from '../../src/keys/key-refresh.js'
import { KEY_KINDS, makeKey } from '../../src/keys/keys.js'
import { describeError, openTerminalLog } from '../../src/lib/log.js'
import { doorsOf, inflating, json, keyed, sending, startLimited } from '../browser-keys.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, settingsFor, startClickHouse, startService, until } from '../helper.js'

interface Line {
  level: number
  reqId?: string
  method?: string
  route?: string
  status?: number
  code?: string
  project?: string
  key?: string
  ms?: number
  count?: number
  limit?: string
  addresses?: number
  codes?: Record<string, number>
  msg: string
}

function recorder(): { log: Logger; lines: Line[]; text(): string } {
  const lines: Line[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  })
  const log = pino({ level: 'info', serializers: { err: describeError } }, stream)
  return { log, lines, text: () => JSON.stringify(lines) }
}

const engine = await startClickHouse(t)
/** Settings for one service after the other, with one engine. */
const settings = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CLICKHOUSE_URL: engine.url }

async function start(t: Test, env: NodeJS.ProcessEnv = {}) {
  const { log, lines, text } = recorder()
  const app = await buildApp(loadConfig({ ...settings, ...env }), { log })
  t.teardown(() => app.close())
  lines.length = 0
  return { app, lines, text }
}

const headers = { 'x-api-key': SECRET_KEY }

t.test('requests and their lines', async (t) => {
  const { app, lines, text } = await start(t)

  t.test('every response has an id, and successful requests log nothing', async (t) => {
    lines.length = 0
    const answers = [
      await app.inject({ method: 'POST', url: '/public/track', headers, payload: { event: 'e', distinct_id: 'u' } }),
      await app.inject({ url: '/public/events', headers }),
      await app.inject({ url: '/health/live' }),
      await app.inject({ url: '/metrics' }),
    ]
    for (const { statusCode } of answers) t.equal(statusCode, 200)
    const ids = answers.map((answer) => String(answer.headers['x-request-id']))
    for (const id of ids) t.match(id, /^[0-9a-f]{10}-[0-9a-z]+$/)
    t.equal(new Set(ids).size, ids.length)
    t.strictSame(lines, [])
  })

  t.test("the client's own id is used if it is short and has only harmless characters", async (t) => {
    const idFor = async (given: string) => {
      const answer = await app.inject({ url: '/health/live', headers: { 'x-request-id': given } })
      return answer.headers['x-request-id']
    }
    for (const id of ['1', 'a-b_c.D', 'x'.repeat(64), '018f4e6a-0000-7000-8000-000000000000'])
      t.equal(await idFor(id), id)
    for (const id of [
      '',
      ' ',
      'x'.repeat(65),
      'a b',
      'a"b',
      '<b>',
      'a{',
      'é',
      'sk_test',
      PUBLIC_KEY,
      ...KEY_KINDS.map(makeKey),
    ]) {
      t.not(await idFor(id), id)
      t.match(await idFor(id), /^[0-9a-f]{10}-/)
    }
  })

  t.test('a request that fails logs one line, without its key, its body or its URL', async (t) => {
    lines.length = 0
    const secret = 'something-private'
    const failing = [
      { method: 'POST', url: '/public/track', headers, payload: { event: secret }, expect: [400, 'invalid_request'] },
      { method: 'POST', url: '/public/track', payload: { apiKey: secret, event: 'e' }, expect: [401, 'unauthorized'] },
      { method: 'GET', url: `/public/users/${secret}`, headers, expect: [404, 'not_found'] },
      { method: 'GET', url: `/public/users/x?${secret}=${secret}`, headers, expect: [400, 'invalid_request'] },
      { method: 'GET', url: `/${secret}?apiKey=${SECRET_KEY}`, expect: [404, 'not_found'] },
      { method: 'GET', url: `/%zz${secret}`, expect: [404, 'not_found'] },
      {
        method: 'POST',
        url: '/public/users/profile',
        headers,
        payload: { distinct_id: secret, operations: { $set: { [secret]: secret }, $add: { [secret]: 1 } } },
        expect: [400, 'not_numeric'],
      },
      {
        method: 'POST',
        url: '/public/track',
        headers: { ...headers, 'content-type': 'application/json' },
        payload: `{"${secret}`,
        expect: [400, 'invalid_json'],
      },
      {
        method: 'POST',
        url: '/public/sessions/start',
        headers,
        payload: { distinct_id: secret, session_id: secret },
        expect: [403, 'wrong_key_kind'],
      },
    ] as const
    for (const { expect, ...request } of failing) {
      lines.length = 0
      const answer = await app.inject(request)
      t.equal(answer.statusCode, expect[0])
      t.equal(lines.length, 1, request.url)
      const { reqId, method, status, code, route, level, project, key } = lines[0] ?? ({} as Line)
      const isKnown = 'headers' in request
      t.strictSame([project, key], isKnown ? ['default', 'SECRET_KEY'] : [undefined, undefined], request.url)
      t.equal(reqId, answer.headers['x-request-id'])
      t.strictSame([method, status, code, level], [request.method, ...expect, 30])
      if (request.url.startsWith('/public')) t.match(route, /^\/public\/[a-z/:]+$/i)
      else t.equal(route, undefined)
      t.notMatch(text(), secret)
      t.notMatch(text(), SECRET_KEY)
    }
  })

  t.test('a request that is not HTTP gets an id and a line, too', async (t) => {
    lines.length = 0
    await app.listen({ host: '127.0.0.1', port: 0 })
    lines.length = 0
    const address = app.server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const socket = connect(address.port, '127.0.0.1')
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.write(`NONSENSE ${SECRET_KEY}\r\n\r\n`)
    await once(socket, 'close')
    const id = /^x-request-id: (\S+)\r$/m.exec(answer)?.[1]
    t.match(lines, [{ reqId: id, status: 400, code: /^HPE_/ }])
    t.notMatch(JSON.stringify(lines), SECRET_KEY)
  })
})

t.test('a refused request is logged with its project and the ID of its key', async (t) => {
  const { log, lines, text } = recorder()
  const found: KeysFound[] = []
  const settings = { DATA_DIR: await dataFolder(t), LOG_LEVEL: 'silent' }
  const app = await buildApp(loadConfig(settings), { log, onKeys: (keys) => found.push(keys) })
  t.teardown(() => app.close())
  const pair = await found[0]?.makeFirst?.()
  if (!pair) throw new Error('no keys were made')
  const { publicKey, secretKey } = pair
  lines.length = 0
  const payload = { apiKey: publicKey, event: 'e', distinct_id: 'u' }
  t.equal((await app.inject({ method: 'POST', url: '/public/track', payload })).statusCode, 403)
  const answer = await app.inject({ url: '/public/events?limit=0', headers: { 'x-api-key': secretKey } })
  t.equal(answer.statusCode, 400)
  t.match(lines, [
    { code: 'wrong_key_kind', project: 'default', key: publicKey.slice(0, 11) },
    { code: 'invalid_request', project: 'default', key: secretKey.slice(0, 11) },
  ])
  for (const key of [publicKey, secretKey]) t.notMatch(text(), key)
})

t.test('many refused requests write a hundred lines and their number', async (t) => {
  const { app, lines } = await start(t)
  const refuse = (count: number, request: object) =>
    Promise.all(Array.from({ length: count }, () => app.inject({ url: '/public/events', ...request })))
  await refuse(250, { headers: { 'x-api-key': 'wrong' } })
  await refuse(30, { url: '/nothing' })
  await refuse(20, { url: '/%zz' })
  t.equal(lines.length, 100)
  await refuse(1, { url: '/public/events/unknown', headers })
  await refuse(101, { url: '/public/events?limit=0', headers })
  t.equal(lines.length, 200, 'those of a known key have separate lines')
  t.match(lines[100], { code: 'not_found', key: 'SECRET_KEY' })
  lines.length = 0
  await app.close()
  t.match(lines, [
    { level: 30, msg: 'more requests were refused', count: 200, codes: { unauthorized: 150, not_found: 50 } },
    { level: 30, project: 'default', key: 'SECRET_KEY', count: 2, codes: { invalid_request: 2 } },
  ])
  t.equal(lines[0]?.key, undefined)
})

t.test('the next lines are written when the window is over', async (t) => {
  const reported: LeftOut[] = []
  const limit = new LogLimit((left) => reported.push(left), { maxLines: 2, windowMs: 20 })
  const sender = { projectId: 'p', keyId: 'k' }
  const allowed = () => [1, 2, 3].map(() => limit.allows(sender, 'not_found'))
  t.strictSame(allowed(), [true, true, false])
  await until('the end of the window', () => reported.length > 0)
  t.strictSame(reported, [{ ...sender, count: 1, codes: { not_found: 1 } }])
  t.strictSame(allowed(), [true, true, false])
  limit.end()
  t.equal(reported.length, 2)
  t.equal(limit.allows(sender, 'not_found'), true)
  limit.end()
  t.equal(reported.length, 2, 'nothing was left out')
})

t.test('every line is complete on a terminal, including errors', async (t) => {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  const log = await openTerminalLog('info', stream)
  log.warn({ err: new TypeError('first\nsecond', { cause: new Error('third') }), retryMs: 5 }, 'it failed')
  log.info('after')
  const line = '"retryMs":5,"reason":"TypeError: first\\nsecond: third","at":"'
  t.ok(text.includes(line), text)
  t.equal(text.trimEnd().split('\n').length, 2, text)
  t.match(text, /INFO.*after/)
})

t.test('all parts write to the same log', async (t) => {
  const { app, lines } = await start(t, { WRONG_KEY_LIMIT: '1' })
  for (let i = 0; i < 2; i++) await app.inject({ url: '/public/events', headers: { 'x-api-key': 'wrong' } })
  t.strictSame(
    lines.map(({ level, code }) => [level, code]),
    [
      [30, 'unauthorized'],
      [40, undefined],
      [30, 'rate_limited'],
    ],
  )
})

t.test('no line names an address, whatever is refused', async (t) => {
  const { log, lines, text } = recorder()
  const limits = {
    ADDRESS_LIMIT: '3',
    NEW_USERS_LIMIT: '1',
    WORK_ADDRESS_LIMIT: '16384',
    WORK_KEY_LIMIT: '32768',
    WRONG_KEY_LIMIT: '1',
  }
  const service = await startLimited(t, { ...settings, ...limits, TRUST_PROXY: '198.51.100.7' }, {}, { log })
  const { app, keys, pass } = service
  const send = (call: InjectOptions, address: string) => {
    const headers = { ...call.headers, 'x-forwarded-for': address, 'user-agent': address }
    return app.inject({ ...call, headers, remoteAddress: '198.51.100.7' })
  }
  const wrong = keyed('wk_wrong')
  const body = { distinct_id: 'u', properties: { pad: 'x'.repeat(600_000) } }
  let user = 0
  const doors = await doorsOf(t, service, keys.write)
  for (const [i, address] of ['2001:db8:7::8', '203.0.113.7', '::ffff:203.0.113.8'].entries()) {
    const said = { ip: address, $ip: address, context: { ip: address } }
    for (const { method, url } of i === 0 ? doors : doors.slice(0, 5)) {
      for (const headers of [{}, wrong, keyed(keys.write)]) {
        const call = sending(method, url, headers)
        await send({ ...call, ...(call.payload && { payload: JSON.stringify(said) }) }, address)
      }
      pass(60_000)
    }
    const identify = () => json('/public/users/identify', keys.write, { distinct_id: `new ${++user}`, ...said })
    const track = () => json('/public/track', keys.write, { event: 'e', distinct_id: 'u', ...said })
    const costly = () => inflating('/public/track', keyed(keys.write), { event: 'e', ...body })
    for (const make of [identify, costly, track]) {
      pass(3_600_000)
      const codes = []
      for (let i = 0; i < 5; i++) codes.push((await send(make(), address)).statusCode)
      t.equal(codes.at(-1), 429, codes.join())
    }
    pass(3_600_000)
    // From other addresses, which have done nothing yet.
    const others = [1, 2].map((n) => address.replace(/[78]$/, `${n}`).replace('db8:7', `db8:${n}`))
    const codes = []
    for (const other of others) codes.push((await send(costly(), other)).statusCode)
    t.strictSame(codes, [200, 429])
  }
  const refused = lines.filter(({ msg }) => msg === 'calls with browser keys are refused')
  const reasons = refused.map(({ limit, addresses, key }) => `${limit} ${addresses ?? key}`)
  t.strictSame([...new Set(reasons)].sort(), ['new_users 1', 'requests 1', 'work 1', `work ${keys.write.slice(0, 11)}`])
  t.ok(lines.some(({ msg, addresses }) => msg === 'many wrong keys are being sent' && addresses === 1))
  t.notMatch(text(), /203\.0\.113|198\.51\.100|2001:0?db8/i)
})

t.test('only the message of an error is logged', async (t) => {
  const { log, text } = recorder()
  const cause = Object.assign(new Error('the cause'), { command: { args: ['private'] } })
  log.error({ err: Object.assign(new TypeError('the error', { cause }), { code: 'EX', command: ['private'] }) }, 'm')
  t.match(text(), /"type":"TypeError","message":"the error: the cause"/)
  t.match(text(), /"code":"EX"/)
  t.match(text(), /the cause[\s\S]*at /)
  t.notMatch(text(), 'private')
  log.error({ err: 'private' }, 'm')
  t.notMatch(text(), 'private')
})

t.test('LOG_LEVEL sets the level, and the format is JSON unless stdout is a terminal', async (t) => {
  const service = await startService(t, { ...settings, LOG_LEVEL: 'info' })
  await fetch(`${service.url}/nothing`)
  const line = await until('a line', () => /^\{.*"status":404.*\}$/m.exec(service.output())?.[0])
  t.match(JSON.parse(line), { level: 30, code: 'not_found', msg: 'the request was refused' })
  service.process.kill('SIGTERM')
  await service.ended
})
