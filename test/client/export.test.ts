import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Connection } from '../../src/client/connection.js'
import { type ExportOptions, exportEvents } from '../../src/client/export.js'
import { SECRET_KEY } from '../helper.js'
import { answer, cut, type Fault, failure, faultyServer } from './faulty-server.js'

/** A response with events of these ids. */
const page = (ids: string, next: string | null, pending = 0) => {
  const events = [...ids].map((eventId) => ({ eventId, event: 'e', distinct_id: 'u', properties: {}, timestamp: 1 }))
  return answer(200, JSON.stringify({ status: 1, error: null, events, hasMore: next !== null, next, pending }))
}

async function walk(t: Test, answers: Parameters<typeof faultyServer>[1], options: ExportOptions = {}) {
  const { url, received } = await faultyServer(t, answers)
  const retry = { attempts: 3, baseDelayMs: 0, maxDelayMs: 0 }
  const events = exportEvents(new Connection({ url, secretKey: SECRET_KEY, retry }), options)
  const ids: string[] = []
  const collect = async () => {
    for await (const { eventId } of events) ids.push(eventId)
    return ids.join('')
  }
  return { collect, ids, urls: () => received.map((request) => request.url) }
}

t.test('the export follows the cursor and retries a page that fails transiently', async (t) => {
  const { collect, urls } = await walk(t, [page('ab', 'c+1'), cut, page('cd', 'e'), page('e', null)], {
    pageSize: 2,
    event: 'a&b',
    from: 5,
    to: new Date(6),
  })
  t.equal(await collect(), 'abcde')
  const first = '/public/events?limit=2&event=a%26b&from=5&to=6'
  t.strictSame(urls(), [first, `${first}&cursor=c%2B1`, `${first}&cursor=c%2B1`, `${first}&cursor=e`])
})

t.test('the export waits for pending events, and yields none twice', async (t) => {
  const { collect } = await walk(t, [
    page('ab', 'c'),
    page('c', null, 3),
    page('cd', null, 2),
    page('cde', 'f'),
    page('f', null),
  ])
  t.equal(await collect(), 'abcdef')
})

t.test('an incomplete export throws at its end', async (t) => {
  const { collect, ids, urls } = await walk(t, [page('ab', null, 7)])
  await t.rejects(collect(), { code: 'incomplete', message: /7 accepted events/ })
  t.strictSame(ids, ['a', 'b'])
  t.equal(urls().length, 12)
})

t.test('newest first: the first page waits for the pending events, which would come first', async (t) => {
  const { collect, urls } = await walk(t, [page('ba', null, 2), page('dc', 'b'), page('ba', null, 5)], {
    order: 'desc',
  })
  t.equal(await collect(), 'dcba')
  t.strictSame(urls(), [
    '/public/events?limit=1000&order=desc',
    '/public/events?limit=1000&order=desc',
    '/public/events?limit=1000&order=desc&cursor=b',
  ])
  const never = await walk(t, [page('ba', null, 7)], { order: 'desc' })
  await t.rejects(never.collect(), { code: 'incomplete', message: /7 accepted events/ })
  t.strictSame([never.ids, never.urls().length], [['b', 'a'], 12])
})

t.test('a line stream that breaks off or stalls throws', async (t) => {
  const begin = (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson; charset=utf-8' }).write('{"n":1}\n{"n":2}\n{"n"')
  }
  const broken: Fault = (response) => {
    begin(response)
    setImmediate(() => response.destroy())
  }
  for (const [fault, code] of [
    [broken, 'network'],
    [begin, 'timeout'],
  ] as const) {
    const { url, received } = await faultyServer(t, [cut, failure(503, 'unavailable'), fault])
    const retry = { attempts: 3, baseDelayMs: 0, maxDelayMs: 0 }
    const connection = new Connection({ url, secretKey: SECRET_KEY, retry, timeoutMs: 1000 })
    const lines: string[] = []
    const read = async () => {
      for await (const line of connection.lines({ method: 'GET', path: '/' })) lines.push(line)
    }
    await t.rejects(read(), { code })
    t.strictSame([lines.length <= 2, received.length], [true, 3])
  }
})
