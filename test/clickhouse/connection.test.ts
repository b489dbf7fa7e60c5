import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { CONNECTIONS } from '../../src/clickhouse/connection.js'
import { startClickHouse } from '../helper.js'

t.test('many queries at a time are no leak that Node warns of', async (t) => {
  const engine = await startClickHouse(t)
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

t.test('a page of a proxy is no response of ClickHouse', async (t) => {
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
