import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { AppOptions } from '../../src/app.js'
import { ClickHouse, SLOT_LIMITS } from '../../src/clickhouse/client.js'
import { storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { CONTEXT_COLUMNS, CONTEXT_TYPES } from '../../src/store/context-sql.js'
import { SECRET_KEY, type StoredEvent, settingsFor, startApp, startClickHouse, startService, until } from '../helper.js'
import { clickHouseError, TcpProxy } from './tcp-proxy.js'

/** Without facts, because copying would add to the counted queries and rows. */
const NO_FACTS = { FACTS: 'off' }

const FORMATS = ['json', 'ndjson', 'csv', 'parquet'] as const
const MIB = 1024 * 1024

/** An id from before every journal of these tests, so that it is stored for certain. */
const OLD_ID = `reinterpret(bitOr(
  bitShiftLeft(toUInt128(0x8000000000000000) + bitShiftLeft(number, 32), 64),
  toUInt128(bitShiftLeft(toUInt64(1600000000000), 16) + 0x7000)), 'UUID')`

/** Events of the project as if they had been tracked long ago. */
async function fill(clickhouse: ClickHouse, count: number, properties: string, event = `'e'`): Promise<void> {
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties) SELECT 'default', ${OLD_ID}, ${event}, concat('u', toString(number % 10)), number, 0, ${properties} FROM numbers(${count})`,
  )
}

/** Replaces the table by a view with a condition that every read evaluates; nothing can be written any more. */
async function replaceEvents(clickhouse: ClickHouse, condition: string): Promise<void> {
  await clickhouse.command('RENAME TABLE events TO stored_events')
  await clickhouse.command(
    `CREATE VIEW events AS
     SELECT 'default' AS project_id, ${OLD_ID} AS event_id, 'e' AS event, 'u' AS distinct_id, 0. AS timestamp, '{}' AS properties, '' AS insert_id, '' AS session_id,
       ${CONTEXT_COLUMNS.map((name) => `${name === 'bot' ? '0' : "''"} AS ${name}`).join(', ')}
     FROM system.numbers WHERE ${condition} SETTINGS max_block_size = 1`,
  )
}

/** Reads responses of the service from its socket. */
function reader(t: Test, url: string) {
  return async (query: string): Promise<IncomingMessage> => {
    const request = get(`${url}/public/events?${query}`, { headers: { 'x-api-key': SECRET_KEY }, agent: false })
    // After the response has begun, an error belongs to the response, and may be reported here as well.
    request.on('error', () => undefined)
    t.teardown(() => request.destroy())
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return response
  }
}

/** Opens responses that nobody reads. */
async function stalledReaders(t: Test, url: string, key: string, query: string, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(Number(new URL(url).port), '127.0.0.1'))
  for (const socket of sockets) {
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.pause()
    socket.write(`GET /public/events?${query} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n\r\n`)
  }
  return sockets
}

/**
 * Whether a page of events is being read. After its start, the service counts the events of projects, which may never
 * end here.
 */
const isRunning = async (clickhouse: ClickHouse) => {
  const rows = await clickhouse.rows(
    `SELECT 1 FROM system.processes
     WHERE query LIKE '%FROM events%' AND query NOT LIKE '%GROUP BY project_id%' AND query NOT LIKE '%system.processes%'
     LIMIT 1`,
  )
  return rows.length > 0
}

async function start(t: Test, options: AppOptions = {}) {
  const settings: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), ...NO_FACTS }
  const clickhouse = new ClickHouse({ url: settings.CLICKHOUSE_URL ?? '' })
  t.teardown(() => clickhouse.close())
  const { app } = await startApp(t, settings, options)
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, url, clickhouse, read: reader(t, url) }
}

t.test('hanging up before the response ends the query', async (t) => {
  const { url, clickhouse } = await start(t)
  // Never ends: a second for each row.
  await replaceEvents(clickhouse, 'sleepEachRow(1) = 0')
  for (const query of ['', 'page=5000&limit=10000', ...FORMATS.map((format) => `format=${format}`)]) {
    const request = get(`${url}/public/events?${query}`, {
      headers: { 'x-api-key': SECRET_KEY },
      agent: false,
    })
    request.on('error', () => undefined)
    await until('the query', () => isRunning(clickhouse))
    request.destroy()
    await until('its end', async () => !(await isRunning(clickhouse)))
    t.pass(query)
  }
})

t.test('hanging up in the middle of the response ends the query', async (t) => {
  const { clickhouse, read } = await start(t)
  await fill(clickhouse, 1000, `concat('{"x":"', randomPrintableASCII(100000), '"}')`)
  for (const format of FORMATS) {
    const response = await read(`limit=1000&format=${format}`)
    await once(response, 'readable')
    t.ok(await isRunning(clickhouse), format)
    response.destroy()
    await until('its end', async () => !(await isRunning(clickhouse)))
  }
})

t.test('a response that cannot be completed is an error', async (t) => {
  const { clickhouse, read } = await start(t)
  await replaceEvents(clickhouse, 'throwIf(number = 40) = 0')
  for (const format of FORMATS) {
    for (const query of ['limit=100', 'limit=40', 'limit=100&page=2']) {
      const response = await read(`${query}&format=${format}`)
      const body = await response.toArray()
      t.equal(response.statusCode, 503, `${format}, ${query}`)
      t.match(JSON.parse(body.join('')), { status: 0, code: 'unavailable' })
      t.match(response.headers, { 'content-type': /json/, 'x-has-more': undefined, 'content-disposition': undefined })
    }
  }
})

/** Reads a response that began with 200; fails if it looks complete. */
async function brokenBody(
  t: Test,
  response: IncomingMessage,
  what: string,
  fault: () => Promise<void> = async () => undefined,
): Promise<string> {
  // Before the fault, because Node does not report a broken response that nobody listens to.
  const broken = t.rejects(once(response, 'end'), { code: 'ECONNRESET' }, what)
  await fault()
  const chunks: Buffer[] = []
  response.on('data', (chunk) => chunks.push(chunk))
  await broken
  t.equal(response.statusCode, 200)
  t.equal(response.complete, false)
  return Buffer.concat(chunks).toString()
}

t.test('a response that fails halfway does not look complete', async (t) => {
  const { app, url, clickhouse, read } = await start(t)
  await fill(clickhouse, 6000, `concat('{"x":"', repeat('x', 10000), '"}')`)
  await clickhouse.command('ALTER TABLE events RENAME COLUMN properties TO text')
  await clickhouse.command(
    'ALTER TABLE events ADD COLUMN properties String ALIAS if(throwIf(timestamp = 5500) = 0, text, text)',
  )
  for (const format of ['json', 'ndjson', 'csv']) {
    for (const query of ['limit=10000', 'limit=3000&page=2', 'limit=10000&event=e']) {
      const body = await brokenBody(t, await read(`${query}&format=${format}`), `${format}, ${query}`)
      t.match(body, 'xxxxx')
      t.notMatch(body, /Exception|throwIf/, 'and does not reveal internal errors')
    }
    const whole = await read(`limit=100&format=${format}`)
    t.equal(
      Buffer.concat(await whole.toArray())
        .toString()
        .match(/x{10000}/g)?.length,
      100,
    )
    // If the end of the connection ends the response, only a reset shows a failure. This checks it on the side of the
    // service, because with data in flight, libuv reports a reset (POLLHUP after a partial read) as an end to the
    // client.
    const connected = once(app.server, 'connection') as Promise<[Socket]>
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`GET /public/events?limit=10000&format=${format} HTTP/1.0\r\nx-api-key: ${SECRET_KEY}\r\n\r\n`)
    const [served] = await connected
    let isReset = false
    const { resetAndDestroy } = served
    served.resetAndDestroy = () => {
      isReset = !served.destroyed
      return resetAndDestroy.call(served)
    }
    await socket.toArray().catch((error) => t.equal(error.code, 'ECONNRESET'))
    t.ok(isReset, `${format} over HTTP/1.0`)
  }
  // The first byte of a Parquet page is written only after its last row was read.
  const parquet = await read('limit=10000&format=parquet')
  t.equal(parquet.statusCode, 503)
  t.match(JSON.parse(Buffer.concat(await parquet.toArray()).toString()), { status: 0, code: 'unavailable' })
})

t.test('a response whose query or engine is killed does not look complete', async (t) => {
  const engine = await startClickHouse(t)
  const { app } = await startApp(t, { ...(await settingsFor(t, 'servers')), ...NO_FACTS, CLICKHOUSE_URL: engine.url })
  const read = reader(t, await app.listen({ port: 0, host: '127.0.0.1' }))
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  await fill(clickhouse, 1000, `concat('{"x":"', repeat('x', 100000), '"}')`)
  const faults = {
    query: () => clickhouse.command(`KILL QUERY WHERE query LIKE '%FROM events%' AND query NOT LIKE 'KILL%' ASYNC`),
    engine: async () => {
      const pid = engine.pid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      await until('its end', () => engine.pid() !== pid)
      await until('the next', () =>
        clickhouse.ping().then(
          () => true,
          () => false,
        ),
      )
    },
  }
  for (const [name, fault] of Object.entries(faults)) {
    for (const format of ['json', 'ndjson', 'csv']) {
      const response = await read(`limit=1000&format=${format}`)
      await once(response, 'readable')
      const body = await brokenBody(t, response, `${name}, ${format}`, fault)
      // What was sent before its engine died may be lost with the connection.
      if (name === 'query') t.match(body, 'xxxxx')
      t.notMatch(body, 'Exception')
    }
  }
})

t.test('events that look like an error of ClickHouse are returned unchanged', async (t) => {
  const { clickhouse, read } = await start(t)
  const text =
    '\r\n__exception__\r\nabcdefghijklmnop\r\nCode: 395. DB::Exception: no. (NO) \n9 abcdefghijklmnop\r\n__exception__\r\n'
  await fill(clickhouse, 1000, `concat('{"x":"', repeat('x', 1000), '"}')`)
  await clickhouse.command('ALTER TABLE events UPDATE event = {text:String} WHERE 1', { text }, { mutations_sync: '2' })
  const json = JSON.parse(Buffer.concat(await (await read('limit=1000')).toArray()).toString())
  t.ok(json.events.length === 1000 && json.events.every(({ event }: { event: string }) => event === text))
  const csv = await read('limit=1000&format=csv')
  t.equal(
    Buffer.concat(await csv.toArray())
      .toString()
      .split(`"${text}"`).length,
    1001,
  )
  t.equal(csv.complete, true)
})

t.test('a response that is cut off between ClickHouse and the service does not look complete', async (t) => {
  const settings: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), ...NO_FACTS }
  const direct = new ClickHouse({ url: settings.CLICKHOUSE_URL ?? '' })
  t.teardown(() => direct.close())
  const proxy = await TcpProxy.open(t, settings.CLICKHOUSE_URL ?? '')
  const { app } = await startApp(t, { ...settings, CLICKHOUSE_URL: proxy.url })
  const read = reader(t, await app.listen({ port: 0, host: '127.0.0.1' }))
  await fill(direct, 1000, `concat('{"x":"', repeat('x', 100000), '"}')`)
  for (const format of ['json', 'ndjson', 'csv'] as const) {
    const response = await read(`limit=1000&format=${format}`)
    t.equal(response.statusCode, 200)
    await once(response, 'readable')
    proxy.cut()
    await t.rejects(response.toArray(), { code: 'ECONNRESET' }, format)
    t.equal(response.complete, false)
    proxy.restore()
  }
})

t.test('a reader that stops reading does not fill the memory', async (t) => {
  const settings: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), ...NO_FACTS }
  const { url } = await startService(t, settings)
  const clickhouse = new ClickHouse({ url: settings.CLICKHOUSE_URL ?? '' })
  t.teardown(() => clickhouse.close())
  const size = 200 * MIB
  const limit = size / 2
  await fill(clickhouse, Math.ceil(size / 100_000), `concat('{"x":"', repeat('x', 100000), '"}')`)
  const residentBytes = async () => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1])
  }
  const read = reader(t, url)
  for (const format of ['json', 'ndjson', 'csv'] as const) {
    const before = await residentBytes()
    const response = await read(`limit=10000&format=${format}`)
    await once(response, 'readable')
    // The memory has reached its peak when 10 checks in a row find no higher one. On a machine of any speed this ends,
    // because the peak is at most `limit`.
    let peak = before
    let same = 0
    await until('the memory to stay', async () => {
      const now = await residentBytes()
      same = now > peak + MIB ? 0 : same + 1
      if (same === 0) peak = now
      return same === 10 || peak - before >= limit
    })
    t.ok(peak - before < limit, `${format}: ${Math.round((peak - before) / MIB)} MiB more`)
    let bytes = 0
    for await (const chunk of response) bytes += chunk.length
    t.ok(response.complete && bytes > size, `${format} in the end`)
  }
})

t.test('a client that does not read does not keep others from reading', async (t) => {
  const slotLimits = { ...SLOT_LIMITS, waitMs: 15_000, stalledMs: 500 }
  const { app, url, clickhouse } = await start(t, { slotLimits })
  const other = storedKey('sk_other_project', { projectId: 'other', kind: 'secret' })
  await insertKeys(clickhouse, [other], Date.now())
  const get = (query: string, key = SECRET_KEY) =>
    app.inject({ url: `/public/events?${query}`, headers: { 'x-api-key': key } })
  await until('the key', async () => (await get('', 'sk_other_project')).statusCode === 200)
  // Pages of 2 MB are held in memory; those of 20 MB are not, and keep their connection while nobody needs it.
  await fill(clickhouse, 10_000, `concat('{"x":"', repeat('x', if(number < 5000, 100, 4000)), '"}')`)
  for (const query of ['limit=5000', 'limit=10000&format=ndjson', 'limit=10000']) {
    const sockets = await stalledReaders(t, url, SECRET_KEY, query, 64)
    // A project that reads a lot has half of them while others send requests.
    await until('the maximum number of queries of the project', async () => {
      const rows = await clickhouse.rows(`SELECT 1 FROM system.processes WHERE query LIKE '%FROM events%'`)
      return query === 'limit=5000' || rows.length >= SLOT_LIMITS.perProject / 2
    })
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, () => get('limit=10', 'sk_other_project')),
      ...Array.from({ length: 10 }, () => get('limit=10')),
    ])
    for (const [i, { statusCode, headers }] of answers.entries()) {
      if (i >= 10 && statusCode === 503) t.ok(headers['retry-after'])
      else t.equal(statusCode, 200, `${query}: ${i}`)
    }
    // Waiting and later reads give up, or get the slots of reads that were cut off.
    await until('an answer for the project of the readers', async () => (await get('limit=10')).statusCode === 200)
    for (const socket of sockets) socket.destroy()
  }
})

t.test('a filter that finds little in time returns that, and can be continued', async (t) => {
  const searchLimits = { directMs: 100, searchMs: 2000, stepRows: 100 }
  const { clickhouse, read } = await start(t, { searchLimits })
  await fill(clickhouse, 2500, `'{}'`)
  const rare = [3, 1000, 1001, 2400]
  await clickhouse.command('RENAME TABLE events TO stored_events')
  // A millisecond for each row that the filter looks at; ClickHouse reads at least 20.
  await clickhouse.command(
    `CREATE TABLE events
     (
       project_id String, event_id UUID, distinct_id String, timestamp Float64, properties String,
       insert_id String, session_id String,
       ${Object.entries(CONTEXT_TYPES)
         .map(([name, type]) => `${name} ${type}`)
         .join(', ')},
       event String ALIAS if(sleepEachRow(0.001) = 0 AND timestamp IN (${rare}), 'rare', 'e')
     )
     ENGINE = MergeTree ORDER BY (project_id, toUInt128(event_id)) SETTINGS index_granularity = 20`,
  )
  await clickhouse.command(
    `INSERT INTO events
     SELECT project_id, event_id, distinct_id, timestamp, properties, insert_id, session_id, ${CONTEXT_COLUMNS.join(', ')}
     FROM stored_events`,
  )
  const ids = await clickhouse.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM events WHERE timestamp IN (${rare}) ORDER BY timestamp`,
  )
  const wanted = ids.map(({ id }) => id)
  const walk = async (format: (typeof FORMATS)[number], order: 'asc' | 'desc', limit: number) => {
    const found: string[] = []
    let pages = 0
    let refused = 0
    for (let cursor = ''; ; pages++) {
      const response = await read(`event=rare&format=${format}&order=${order}&limit=${limit}${cursor}`)
      const body = Buffer.concat(await response.toArray())
      // On a busy machine, even finding the first events may exceed the time limit of a search.
      if (response.statusCode === 503 && ++refused < 100) continue
      if (response.statusCode !== 200) throw new Error(body.toString())
      const here = body.toString('latin1').match(/[\da-f]{8}-[\da-f]{4}-7[\da-f-]{21}/g) ?? []
      // Parquet repeats it in its statistics.
      found.push(...new Set(here))
      const { next, hasMore } =
        format === 'json'
          ? JSON.parse(body.toString())
          : { next: response.headers['x-next-cursor'] ?? null, hasMore: response.headers['x-has-more'] === 'true' }
      t.equal(hasMore, next !== null)
      if (next === null) break
      cursor = `&cursor=${next}`
    }
    t.strictSame(found, order === 'asc' ? wanted : [...wanted].reverse(), `${format} ${order} ${limit}`)
    t.ok(pages > 0, `${pages + 1} pages`)
  }
  await Promise.all([
    walk('json', 'asc', 50),
    walk('json', 'desc', 10_000),
    walk('ndjson', 'asc', 2),
    walk('csv', 'desc', 1),
    walk('parquet', 'asc', 1),
  ])
  const response = await read('event=rare&page=2')
  const all = await read('limit=2')
  t.equal(all.statusCode, 200)
  // A page by number must not be short, because another process would return other pages after it.
  if (response.statusCode !== 200) {
    t.equal(response.statusCode, 503)
    t.match(JSON.parse(Buffer.concat(await response.toArray()).toString()), { code: 'unavailable', error: /cursor/ })
  }
})

t.test('a search that runs out of time returns its matches so far, and page 2 stays page 2', async (t) => {
  const settings: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'servers')), ...NO_FACTS }
  const direct = new ClickHouse({ url: settings.CLICKHOUSE_URL ?? '' })
  t.teardown(() => direct.close())
  const proxy = await TcpProxy.open(t, settings.CLICKHOUSE_URL ?? '')
  // Longer than any query takes: only the proxy decides which queries reach their limits.
  const searchLimits = { directMs: 30_000, searchMs: 120_000, stepRows: 100 }
  const { call } = await startApp(t, { ...settings, CLICKHOUSE_URL: proxy.url }, { searchLimits })
  await fill(direct, 2500, `'{}'`, `if(number IN (3, 1000, 1001, 2400), 'rare', 'e')`)
  const ids = await direct.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM events WHERE timestamp = 100 OR event = 'rare' ORDER BY timestamp`,
  )
  const [third, hundredth = '', ...rest] = ids.map(({ id }) => id)
  const read = async (query: string) => {
    const response = await call('GET', `/public/events?event=rare&limit=2${query}`)
    t.equal(response.statusCode, 200, response.body)
    const { events, next } = response.json<{ events: StoredEvent[]; next: string | null }>()
    return { found: events.map(({ eventId }) => eventId), next }
  }

  for (const format of ['json', 'ndjson']) {
    const timeout = clickHouseError(159, 'TIMEOUT_EXCEEDED', 'Timeout exceeded')
    // The page itself; then the second step of the search, which begins with four times the rows of the first one.
    const first = format === 'json' ? 'toJSONString(event)' : 'rowNumberInAllBlocks'
    const outOfTime = [proxy.answer(first, timeout), proxy.answer(`param_startAt=${hundredth}`, timeout, 2)]
    const url = `/public/events?event=rare&limit=2&format=${format}`
    const short = await call('GET', url)
    t.equal(short.statusCode, 200, short.body)
    await Promise.all(outOfTime)
    t.strictSame(short.body.match(/[\da-f]{8}-[\da-f]{4}-7[\da-f-]{21}/g), [third], `${format}: the matches so far`)
    const next = format === 'json' ? short.json().next : short.headers['x-next-cursor']
    t.strictSame((await read('&page=2')).found, rest.slice(1), `${format}: the third and the fourth by their number`)
    const second = await read(`&cursor=${next}`)
    t.strictSame(second.found, rest.slice(0, 2), `${format}: the cursor resumes`)
    t.strictSame((await read(`&cursor=${second.next}`)).found, rest.slice(2))
  }
})

t.test('a page reads the same amount of the store, however deep it is', async (t) => {
  const { clickhouse, read } = await start(t)
  const pages = 30
  const limit = 10_000
  await fill(clickhouse, pages * limit, `concat('{"n":', toString(number), '}')`)
  const selected = async () => {
    const [row] = await clickhouse.rows<{ value: string }>(
      `SELECT value FROM system.events WHERE event = 'SelectedRows'`,
    )
    return Number(row?.value)
  }
  // ClickHouse reads blocks of this many rows, once for the bounds of a page and once for its rows.
  const most = 2 * 65_536 + limit
  const readPage = async (query: string) => {
    const before = await selected()
    const response = await read(query)
    const body = Buffer.concat(await response.toArray()).toString()
    return { response, body, cost: (await selected()) - before }
  }
  for (const format of ['json', 'csv'] as const) {
    for (const by of ['page', 'cursor']) {
      const costs: number[] = []
      let cursor = ''
      for (let page = 1; page <= pages; page++) {
        const query = `limit=${limit}&format=${format}${by === 'page' ? `&page=${page}` : cursor}`
        // Background reads of the service count, too, but not in every attempt.
        const { response, body, cost } = await until(`${query} to cost less than ${most} rows`, async () => {
          const found = await readPage(query)
          return found.cost < most && found
        })
        costs.push(cost)
        const next = format === 'json' ? JSON.parse(body).next : response.headers['x-next-cursor']
        t.equal(typeof next === 'string', page < pages)
        cursor = `&cursor=${next}`
      }
      t.comment(`${format} by ${by}: ${costs} rows`)
    }
  }
})
