import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { CONNECTIONS, Connection, INSERT_TIMEOUT_MS } from '../../src/clickhouse/connection.js'
import { startClickHouse, temporaryFolder } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

t.test('Connection runs many concurrent queries without a warning about a leak', async (t) => {
  const engine = await emptyClickHouse()
  const clickhouse = new ClickHouse({ url: engine.url.replace(/analytics$/, 'default') })
  t.teardown(() => clickhouse.close())
  const warnings: string[] = []
  const note = ({ name }: Error) => warnings.push(name)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  await Promise.all(Array.from({ length: 20 }, () => clickhouse.rows('SELECT 1')))
  await new Promise((resolve) => setImmediate(resolve))
  t.notOk(warnings.includes('MaxListenersExceededWarning'))
})

t.test("Connection does not mistake a proxy's page for a response of ClickHouse", async (t) => {
  const proxy = createServer((request, response) => {
    request.resume().on('end', () => response.end('<html>Welcome to nginx!</html>'))
  }).listen(0, '127.0.0.1')
  proxy.keepAliveTimeout = 0
  await once(proxy, 'listening')
  const clickhouse = new ClickHouse({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/analytics` })
  t.teardown(async () => {
    await clickhouse.close()
    proxy.close()
  })
  const { signal } = new AbortController()
  const calls: Record<string, () => Promise<unknown>> = {
    insert: () => clickhouse.insert('INSERT INTO events FORMAT JSONEachRow', Readable.from(['{}']), {}, signal),
    command: () => clickhouse.command('SELECT 1'),
    rows: () => clickhouse.rows('SELECT 1'),
    bytes: () => clickhouse.bytes('SELECT 1'),
    ping: () => clickhouse.ping(),
  }
  for (const [name, call] of Object.entries(calls)) {
    // More often than there are connections: none is kept.
    const failures = await Promise.allSettled(Array.from({ length: CONNECTIONS + 1 }, call))
    const expected = { reason: { name: 'StoreUnreachableError', message: /not from ClickHouse/ } }
    t.match(failures, Array(CONNECTIONS + 1).fill(expected), name)
  }
})

/** ClickHouse as seen through something that sends these bytes as the response to the first request. */
async function sending(t: Test, reply: string, { ends }: { ends: boolean }): Promise<ClickHouse> {
  const sockets: Socket[] = []
  const server = createTcpServer((socket) => {
    sockets.push(socket)
    socket.once('data', () => (ends ? socket.end(reply) : socket.write(reply)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clickhouse = new ClickHouse({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/analytics` })
  t.teardown(async () => {
    await clickhouse.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return clickhouse
}

t.test('Connection refuses rows that end with their connection, because some may be missing', async (t) => {
  const head = 'HTTP/1.0 200 OK\r\nX-ClickHouse-Query-Id: 1\r\n\r\n'
  for (const rows of ['', '{"a":1}\n', '{"a":1}\n{"a"']) {
    const clickhouse = await sending(t, `${head}${rows}`, { ends: true })
    await t.rejects(clickhouse.rows('SELECT 1'), { name: 'StoreUnreachableError', message: /HTTP\/1\.1/ }, rows)
  }
})

t.test('Connection says that an error without text is not from ClickHouse', async (t) => {
  const clickhouse = await sending(t, 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n', { ends: true })
  const expected = { name: 'StoreUnreachableError', message: /not from ClickHouse: check CLICKHOUSE_URL/ }
  await t.rejects(clickhouse.rows('SELECT 1'), expected)
})

t.test("Connection does not take a proxy's error for one of ClickHouse", async (t) => {
  // 27 would mean that ClickHouse could not read the rows.
  const page = 'Error: 27\njava.lang.NullPointerException: none\n'
  const clickhouse = await sending(t, `HTTP/1.1 500 Oops\r\nContent-Length: ${page.length}\r\n\r\n${page}`, {
    ends: true,
  })
  await t.rejects(clickhouse.rows('SELECT 1'), { name: 'StoreUnreachableError' })
})

t.test('Connection gives the reason for each address of a host', async (t) => {
  const connection = new Connection('http://127.0.0.1:1')
  t.teardown(() => connection.close())
  // As Node.js does if `localhost` is both ::1 and 127.0.0.1.
  const refuse = () => Promise.reject(new AggregateError([new Error('refused ::1'), new Error('refused 127.0.0.1')]))
  await t.rejects(connection.run(1_000, refuse), { message: /: refused ::1, refused 127\.0\.0\.1$/ })
})

t.test('Connection throws if rows break off or stop arriving', async (t) => {
  const begun = 'HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: 1\r\nContent-Length: 100\r\n\r\n{"a":1}\n'
  const broken = await sending(t, begun, { ends: true })
  await t.rejects(broken.rows('SELECT 1'), { name: 'StoreUnreachableError' })
  const silent = await sending(t, begun, { ends: false })
  await t.rejects(silent.rows('SELECT 1', {}, {}, { limitMs: 100 }), { name: 'StoreTimeoutError' })
  const hungUp = AbortSignal.timeout(100)
  await t.rejects(silent.rows('SELECT 1', {}, {}, { signal: hungUp }), { name: 'StoreUnreachableError' })
})

t.test('Connection asks for signs of life in long statements, and sees an error that follows them', async (t) => {
  const engine = await emptyClickHouse()
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  const asks = async (limitMs: number) =>
    await clickhouse.rows("SELECT getSetting('send_progress_in_http_headers') AS asks", {}, {}, { limitMs })
  t.strictSame(await asks(INSERT_TIMEOUT_MS - 1), [{ asks: false }])
  t.strictSame(await asks(INSERT_TIMEOUT_MS), [{ asks: true }])

  // The status has been sent before the error is known, so it is 200.
  const often = { http_headers_progress_interval_ms: '10', max_block_size: '1' }
  const failing = 'SELECT sleepEachRow(0.05), throwIf(number = 3) FROM numbers(5)'
  const failure = { name: 'StoreError', message: /throwIf/ }
  await t.rejects(clickhouse.rows(failing, {}, often, { limitMs: INSERT_TIMEOUT_MS }), failure)
  await t.rejects(clickhouse.command(failing, {}, often, INSERT_TIMEOUT_MS), failure)
})

t.test('ClickHouse needs no file for a result', async (t) => {
  const folder = await temporaryFolder(t)
  const { url } = await startClickHouse(t, folder)
  const clickhouse = new ClickHouse({ url: url.replace(/analytics$/, 'default') })
  t.teardown(() => clickhouse.close())
  // On a full disk, ClickHouse could create its file, but would send only what is in memory.
  await rm(join(folder, 'tmp'), { recursive: true })
  await writeFile(join(folder, 'tmp'), '')
  t.strictSame(await clickhouse.rows('SELECT 1 AS one'), [{ one: 1 }])
  t.equal((await clickhouse.rows('SELECT number FROM numbers(300000)')).length, 300_000)
  t.equal((await text(await clickhouse.bytes("SELECT 'a' FROM numbers(5000000) FORMAT TSV"))).length, 10_000_000)
  await clickhouse.command('SYSTEM STOP MERGES')
})

t.test('ClickHouse returns no part of a result if its query fails', async (t) => {
  const { url } = await emptyClickHouse()
  const clickhouse = new ClickHouse({ url })
  t.teardown(() => clickhouse.close())
  const failure = { name: 'StoreError', message: /throwIf/ }
  for (const rows of [1, 1_000_000]) {
    const query = `SELECT number, throwIf(number = ${rows}) FROM numbers(2000000)`
    await t.rejects(clickhouse.rows(query, {}, { max_threads: 1 }), failure)
    const read = async () => await text(await clickhouse.bytes(`${query} FORMAT TSV`, {}, { max_threads: 1 }))
    await t.rejects(read(), failure)
  }
})
