import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { readBodyInTurns } from '../../../src/http/admission/body.js'
import { BodyBudget } from '../../../src/http/admission/body-budget.js'
import { CLIENT_LIMITS } from '../../../src/http/socket/connection-limits.js'
import { WEIGHT_BYTES } from '../../../src/json/complexity.js'
import { PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, until } from '../../helper.js'
import { countInflated } from '../count-inflated.js'

const MIB = 1024 * 1024
const OVERLOADED = { code: 'overloaded' }

t.test('BodyBudget limits all bodies, those of a project, and those without a key', async (t) => {
  const budget = new BodyBudget(100, 0)
  const one = budget.ofProject('one')
  one.take(70)

  t.throws(() => budget.ofProject('one').take(6), OVERLOADED, 'a project has three quarters')
  const two = budget.ofProject('two')
  two.take(20)
  t.throws(() => two.take(11), OVERLOADED)
  const unknown = budget.ofAddress('address')
  unknown.take(30)
  t.throws(() => budget.ofAddress('address').take(8), OVERLOADED, 'an address has three quarters of the half')
  budget.ofAddress('other').take(10)
  t.throws(() => budget.ofAddress('third').take(11), { message: /header x-api-key take precedence/ })

  one.close()
  one.close()
  t.equal(budget.known.bytes, 20)
  unknown.admit('two')
  t.equal(budget.unknown.bytes, 10)
  t.equal(budget.known.bytes, 50)
  unknown.close()
  two.close()
  t.equal(budget.known.bytes, 0)
})

t.test('BodyBudget accepts a body of any size if it is the only one', async (t) => {
  const budget = new BodyBudget(100, 0)
  for (const account of [budget.ofProject('p'), budget.ofAddress('a')]) {
    for (let i = 0; i < 10; i++) account.take(100)
    const next = account.isKnown ? budget.ofProject('p') : budget.ofAddress('a')
    t.throws(() => next.take(1), OVERLOADED)
    account.close()
  }
  await until('the end', () => budget.unknown.bytes === 0)
})

t.test('a body counts as long as there is work on it, even if the client is gone', async (t) => {
  const budget = new BodyBudget(100, 0)
  const one = budget.ofProject('one')
  one.take(10)
  let finish = (_: string) => {}
  const work = one.during(() => new Promise<string>((resolve) => (finish = resolve)))
  one.close()
  one.take(20)
  t.equal(budget.known.bytes, 30)
  finish('done')
  t.equal(await work, 'done')
  t.equal(budget.known.bytes, 0)
  one.take(1)
  await t.rejects(
    one.during(() => Promise.reject(new Error('no'))),
    { message: 'no' },
  )
  t.equal(budget.known.bytes, 0)
})

t.test('the JSON of a large body counts while it is read', async (t) => {
  const budget = new BodyBudget(4 * MIB, 0)
  const account = budget.ofProject('one')
  const request = { account } as unknown as FastifyRequest
  const raw = Buffer.from(`[${Array(600_000).fill(0)}]`)
  const seen: number[] = []
  const reading = readBodyInTurns(raw, Number.POSITIVE_INFINITY, request, () => {
    seen.push(budget.known.bytes)
    return Promise.resolve()
  })
  // A single body may be of any size, but leaves no room for another.
  const other = budget.ofProject('two')
  other.take(1)
  await t.rejects(reading, OVERLOADED)
  t.ok(seen.length > 0 && seen.every((bytes, i) => bytes > (seen[i - 1] ?? 0)), `${seen}`)
  other.close()
  account.close()
  const alone = { account: budget.ofProject('one') } as unknown as FastifyRequest
  const json = await readBodyInTurns(raw, Number.POSITIVE_INFINITY, alone, () => null)
  t.equal(budget.known.bytes, (json?.textWeight ?? 0) * WEIGHT_BYTES)
})

t.test('BodyBudget keeps counting a body without a valid key for a while', async (t) => {
  const budget = new BodyBudget(100, 50)
  const refused = budget.ofAddress('a')
  refused.take(40)
  refused.close()
  t.throws(() => budget.ofAddress('a').take(1), OVERLOADED)
  await until('its end', () => budget.unknown.bytes === 0)
  budget.ofAddress('a').take(1)
})

t.test('BodyBudget limits clients without a valid key', async (t) => {
  const clientLimits = { ...CLIENT_LIMITS }
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', BODY_MEMORY: `${32 * MIB}` }
  const { app, call } = await startApp(t, env, { clientLimits })
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const post = async (body: Buffer, headers: object = {}, by = agent) => {
    const all = { 'content-type': 'application/json', 'content-encoding': 'gzip', ...headers }
    const client = request(`${address}/public/track/batch`, { method: 'POST', agent: by, headers: all }).end(body)
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    await once(response.resume(), 'end')
    return response.statusCode ?? 0
  }
  const event = { event: 'e', distinct_id: 'u' }
  const track = async () => (await call('POST', '/public/track', event)).statusCode
  /** a compressed body of this length, with its key at the end */
  const keyLast = (length: number) => {
    const text = JSON.stringify({ events: [{ ...event, properties: { x: 'x'.repeat(length) } }], apiKey: SECRET_KEY })
    return gzipSync(text)
  }
  const bomb = gzipSync(`{"events":[${'[],'.repeat(6 * MIB)}`)

  t.test('a body with an unknown key in the header is not inflated, and the connection stays usable', async (t) => {
    const inflated = countInflated(t)
    const one = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => one.destroy())
    const ports = new Set<number>()
    app.server.on('request', ({ socket }) => ports.add(socket.remotePort ?? 0))
    for (let i = 0; i < 5; i++) t.equal(await post(bomb, { 'x-api-key': 'sk_unknown' }, one), 401)
    t.equal(inflated(), 0)
    const plain = { 'x-api-key': 'sk_unknown', 'content-encoding': 'identity' }
    t.equal(
      await post(Buffer.alloc(10 * MIB, ' '), plain, one),
      401,
      'the client gets the response although it is still sending',
    )
    t.equal(await post(gzipSync(JSON.stringify({ events: [event] })), { 'x-api-key': SECRET_KEY }, one), 200)
    t.equal(ports.size, 1)
  })

  t.test('a client that expects 100 Continue learns whether to send its body', async (t) => {
    const head = 'POST /public/track HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n'
    const ask = async (path: string, key: string, isSent: boolean) => {
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
      })
      const body = JSON.stringify(event)
      socket.write(`${head.replace('/public/track', path)}x-api-key: ${key}\r\ncontent-length: ${body.length}\r\n\r\n`)
      await until('an answer', () => answer.includes('\r\n\r\n'))
      if (isSent) socket.write(body)
      await until('the answer', () => /HTTP\/1\.1 [2-5]/.test(answer))
      return answer.match(/HTTP\/1\.1 \d+/g)
    }
    t.strictSame(await ask('/public/track', SECRET_KEY, true), ['HTTP/1.1 100', 'HTTP/1.1 200'])
    t.strictSame(await ask('/segment/v1/track', SECRET_KEY, true), ['HTTP/1.1 100', 'HTTP/1.1 200'], 'an SDK')
    t.strictSame(await ask('/public/track', 'sk_unknown', false), ['HTTP/1.1 401'])
    t.strictSame(await ask('/public/nothing', SECRET_KEY, false), ['HTTP/1.1 404'])
  })

  t.test('a large body may have its key at the end, compressed or not', async (t) => {
    for (let i = 0; i < 2; i++) t.equal(await post(keyLast(15 * MIB)), 200)
    const plain = Buffer.from(JSON.stringify({ events: [event], x: 'x'.repeat(10 * MIB), apiKey: SECRET_KEY }))
    t.equal(await post(plain, { 'content-encoding': 'identity' }), 200)
    // Even without a socket, its bytes are released with its response.
    for (let i = 0; i < 2; i++) {
      const headers = { 'content-encoding': 'gzip' }
      t.equal((await call('POST', '/public/track/batch', keyLast(15 * MIB), headers)).statusCode, 200)
    }
  })

  t.test('a large body with an unknown key is not parsed', async (t) => {
    const broken = (fields: string) => gzipSync(`{${fields}"x":"${'x'.repeat(10_000)}`)
    t.equal(await post(broken('')), 401)
    t.equal(await post(broken('"apiKey":"sk_unknown",')), 401)
    t.equal(await post(broken(`"apiKey":"${PUBLIC_KEY}",`)), 403)
    t.equal(await post(broken(`"apiKey":"${SECRET_KEY}","apiKey":1,`)), 401, 'the last duplicate wins')
    t.equal(await post(broken(''), { 'x-api-key': PUBLIC_KEY }), 403)
    const both = { 'x-api-key': PUBLIC_KEY }
    t.equal(await post(broken(`"apiKey":"${SECRET_KEY}",`), both), 401, 'the keys differ')
    t.equal(await post(broken(`"apiKey":"${SECRET_KEY}",`)), 400)
  })

  t.test("a large body of a vendor's SDK counts for the key that it begins with", async (t) => {
    const known = async () => {
      const { body } = await app.inject({ url: '/metrics' })
      return Number(/^tallyhouse_body_memory_bytes\{key="known"\} (\d+)$/m.exec(body)?.[1])
    }
    const before = await known()
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    const head = 'POST /posthog/batch/ HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
    const begun = `{"batch":[{"properties":{"token":"${SECRET_KEY}"}},"${'x'.repeat(20_000)}`
    socket.write(`${head}content-length: 1000000\r\n\r\n${begun}`)
    await until('its bytes to be counted', async () => (await known()) === before + begun.length)
  })

  t.test('a stalled body is cut off and releases its memory', async (t) => {
    const head = 'POST /public/track/batch HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
    Object.assign(clientLimits, { bodyIdleMs: 200, unknownBodyMs: 200 })
    t.teardown(() => Object.assign(clientLimits, CLIENT_LIMITS))
    const stall = async (key: string) => {
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
      })
      socket.write(`${head}${key}content-length: 1000000\r\n\r\n{"x":"${'x'.repeat(20_000)}`)
      await until('an answer', () => answer.includes('"status"'))
      return answer
    }
    for (const answer of await Promise.all([stall(''), stall(`x-api-key: ${SECRET_KEY}\r\n`)])) {
      t.match(answer, /^HTTP\/1\.1 408 [\s\S]*"code":"invalid_request"/)
    }
  })

  t.test('many concurrent zip bombs take little memory, and tracking continues', async (t) => {
    const inflated = countInflated(t)
    const before = process.memoryUsage()
    const kinds = [{}, { 'x-api-key': PUBLIC_KEY }]
    const bombs = Array.from({ length: 40 }, (_, i) => post(bomb, kinds[i % 2]))
    const statuses: number[] = []
    let isOver = false
    const all = Promise.all(bombs).finally(() => {
      isOver = true
    })
    let most = 0
    while (!isOver) {
      statuses.push(await track())
      const { external, heapUsed } = process.memoryUsage()
      most = Math.max(most, external + heapUsed - before.external - before.heapUsed)
    }
    t.ok(statuses.length > 0 && statuses.every((status) => status === 200))
    for (const status of await all) t.ok([401, 403, 429, 503].includes(status), String(status))
    // 40 x 18 MiB without the limits; with them half of BODY_MEMORY, and the buffers of streams
    // and sockets.
    t.ok(inflated() < 48 * MIB, `${inflated()} bytes were inflated`)
    t.ok(most < 150 * MIB, `${most} bytes were taken`)
    const { body: metrics } = await app.inject('/metrics')
    const unknown = Number(/^tallyhouse_body_memory_bytes\{key="unknown"\} (\d+)$/m.exec(metrics)?.[1])
    t.ok(unknown > 4 * MIB && unknown < 20 * MIB, `${unknown} bytes are counted after the refusals`)
    const large = gzipSync(JSON.stringify({ apiKey: SECRET_KEY, events: [event], x: 'x'.repeat(5 * MIB) }))
    t.equal(await post(large), 200, 'a body whose key comes first has its own limit')
    t.equal(await post(keyLast(5 * MIB), { 'x-api-key': SECRET_KEY }), 200)
    t.equal(await post(keyLast(5 * MIB)), 503, 'a body whose key comes last is refused')
    t.equal(await post(keyLast(5_000)), 200, 'unless the body is small')
  })
})
