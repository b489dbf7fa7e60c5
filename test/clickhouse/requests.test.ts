import { once } from 'node:events'
import { createServer as createHttpServer, request as httpRequest } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StatementTooLargeError, StoreError, StoreUnreachableError } from '../../src/clickhouse/errors.js'
import type { ClickHouseSettings } from '../../src/clickhouse/parameters.js'
import { Requests } from '../../src/clickhouse/requests.js'
import { codePoint } from '../fuzz/texts.js'
import { until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

/** Lets a server listen in front of ClickHouse until the test ends. @returns a client that goes through this server */
async function behind(t: Test, server: Server, url: string): Promise<ClickHouse> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const seen = new URL(url)
  seen.port = String((server.address() as AddressInfo).port)
  const clickhouse = new ClickHouse({ url: seen.href })
  t.teardown(() => clickhouse.close())
  return clickhouse
}

t.test('Requests', async (t) => {
  const { url, clickhouse } = await emptyClickHouse()

  await t.test('parameters arrive as they are', async (t) => {
    const anyText = fc.string({ unit: codePoint }).map((some) => some.toWellFormed())
    const property = fc.asyncProperty(anyText, async (some) => {
      const query = 'SELECT {some:String}, {number:UInt64} FORMAT RawBLOB'
      const answer = await clickhouse.bytes(query, { some, number: 2n ** 63n })
      return (await text(answer)).startsWith(some)
    })
    await t.resolves(fc.assert(property))
  })

  await t.test('texts in an array arrive as they are, in the URL or in a form', async (t) => {
    const anyText = fc.string({ unit: codePoint }).map((some) => some.toWellFormed())
    const size = fc.constantFrom(1, 5_000)
    const property = fc.asyncProperty(fc.array(anyText), size, async (texts, times) => {
      const some = [...texts, 'long'.repeat(times)]
      const [row] = await clickhouse.rows('SELECT {some:Array(String)} AS some, {one:Float64} AS one', {
        some,
        one: 1.5,
      })
      t.strictSame(row, { some, one: 1.5 })
    })
    await t.resolves(fc.assert(property))
  })

  await t.test('a parameter that ClickHouse would refuse is an error before it is sent', async (t) => {
    const ways: ((some: string) => Promise<unknown>)[] = [
      (some) => clickhouse.rows('SELECT {some:String} AS some', { some }),
      (some) => clickhouse.command('SELECT {some:String} FORMAT Null', { some }),
      async (some) => await text(await clickhouse.bytes('SELECT {some:String} FORMAT RawBLOB', { some })),
    ]
    const largest = 'x'.repeat(128 * 1024)
    for (const send of ways) {
      await t.resolves(send(largest))
      for (const some of [`${largest}x`, `${largest.slice(0, -1)}\n`])
        await t.rejects(send(some), StatementTooLargeError)
    }
  })

  await t.test('large results that are read alternately, some slowly, arrive unchanged', async (t) => {
    const rows = 600_000
    const read = async (first: number) => {
      const query = `SELECT number FROM numbers(${first}, ${rows})`
      const answer = await clickhouse.bytes(query, {}, { wait_end_of_query: first % 2 === 0 ? 1 : 0 })
      const chunks: Buffer[] = []
      for await (const chunk of answer) {
        chunks.push(chunk)
        if (first % 3 === 0) await new Promise((resolve) => setImmediate(resolve))
      }
      return Buffer.concat(chunks).toString()
    }
    const firsts = [1_000_000, 2_000_001, 3_000_003, 4_000_002]
    const answers = await Promise.all(firsts.map(read))
    for (const [i, first] of firsts.entries()) {
      const sent = Array.from({ length: rows }, (_, number) => `${first + number}\n`).join('')
      t.ok(answers[i] === sent, `the numbers from ${first}`)
    }
  })

  await t.test('an error has the number that ClickHouse gave it', async (t) => {
    const error = await clickhouse.bytes('SELECT throwIf(1)').catch((error: unknown) => error)
    t.ok(error instanceof StoreError)
    t.match(error, { code: 395, message: /^ClickHouse error 395: .*non-zero/ })
    // The rest of its text is not read.
    const long = clickhouse.rows("SELECT toUInt8(materialize(repeat('x', 1000000)))")
    await t.rejects(long, { name: 'StoreError', code: 6, words: /Cannot parse string 'x{60000}/ })
  })

  await t.test('a refused password and a missing server count as unreachable', async (t) => {
    const wrong = new URL(url)
    wrong.password = 'wrong'
    const nobody = new URL(url)
    nobody.port = '1'
    for (const { href } of [wrong, nobody]) {
      const other = new ClickHouse({ url: href })
      t.teardown(() => other.close())
      await t.rejects(other.bytes('SELECT 1'), StoreUnreachableError)
    }
  })

  await t.test('a slow reader gets everything, and a stalled stream is an error', async (t) => {
    const { origin, username, password } = new URL(url)
    // Longer than the engine ever takes for a byte on a slow machine; its own longest sleep is 3 s.
    const silentMs = 2_000
    const requests = new Requests({ origin, user: username, password, connections: 1, idleMs: 2_500, silentMs })
    t.teardown(() => requests.close())
    const open = (query: string, settings: ClickHouseSettings = {}) =>
      requests.open({ query, settings }, new AbortController().signal)

    for (const rows of [20, 60, 5000]) {
      const slow = await open(`SELECT repeat('x', 1000) FROM numbers(${rows})`)
      await once(slow.socket, 'timeout')
      t.equal((await text(slow)).length, rows * 1001)
    }

    const silence = { message: 'ClickHouse sent nothing for 2000 ms' }
    await t.rejects(open('SELECT sleep(3)'), silence, 'before the answer')
    const query = `SELECT repeat('x', 1000000), number = 2 AND sleepEachRow(3) FROM numbers(3)`
    const begun = await open(query, {
      max_block_size: '1',
      wait_end_of_query: 0,
      http_response_buffer_size: '1000',
      output_format_parallel_formatting: 0,
    })
    await t.rejects(text(begun), silence, 'in its middle')
  })

  await t.test('refuses a response that ends with its connection, because it may be incomplete', async (t) => {
    const server = createServer((socket) => {
      socket.once('data', () =>
        socket.end('HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Tag: abcdefghijklmnop\r\n\r\n1\n'),
      )
    })
    const other = await behind(t, server, url)
    await t.rejects(other.bytes('SELECT 1'), { name: 'StoreUnreachableError', message: /HTTP\/1\.1/ })
  })

  await t.test('behind a proxy that removes the tag of an error, a response is completed first', async (t) => {
    const gateway = createHttpServer((request, response) => {
      const { pathname, search } = new URL(request.url ?? '', url)
      const { method, headers } = request
      const onward = httpRequest(new URL(`${pathname}${search}`, url), { method, headers, auth: '' }, (answer) => {
        const { 'x-clickhouse-exception-tag': _, ...rest } = answer.headers
        response.writeHead(answer.statusCode ?? 500, rest)
        // This also completes what was broken.
        answer.on('data', (chunk) => response.write(chunk))
        answer.on('close', () => response.end())
        answer.on('error', () => undefined)
      })
      request.pipe(onward)
    })
    const other = await behind(t, gateway, url)
    const streamed = { wait_end_of_query: 0, max_block_size: '1000', http_response_buffer_size: '1000' } as const
    const rows = (last: number) => `SELECT throwIf(number = ${last}) FROM numbers(100000)`
    t.equal((await text(await other.bytes(rows(100_000), {}, streamed))).length, 200_000)
    await t.rejects(other.bytes(rows(99_999), {}, streamed), { code: 395 })
  })

  await t.test('connections are kept for the next query, and closed when they were idle', async (t) => {
    const open = new Set<Socket>()
    const proxy = createServer((client) => {
      open.add(client)
      client.on('close', () => open.delete(client))
      pipeline(client, connect(Number(new URL(url).port), '127.0.0.1'), client, () => undefined)
    })
    const other = await behind(t, proxy, url)
    for (let i = 0; i < 10; i++) t.equal(await text(await other.bytes('SELECT 1')), '1\n')
    t.equal(open.size, 1)
    await until('its end', () => open.size === 0)
  })
})
