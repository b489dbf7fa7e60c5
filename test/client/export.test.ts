import t, { type Test } from 'tap'
import { Connection } from '../../src/client/connection.js'
import { type ExportOptions, exportEvents } from '../../src/client/export.js'
import { SECRET_KEY } from '../helper.js'
import { answer, cut, faultyServer } from './faulty-server.js'

/** An answer with events of these ids. */
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

t.test('it goes on by the cursor, and a page that fails for the moment is read again', async (t) => {
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

t.test('events that the store does not have yet are waited for, none given twice', async (t) => {
  const { collect } = await walk(t, [
    page('ab', 'c'),
    page('c', null, 3),
    page('cd', null, 2),
    page('cde', 'f'),
    page('f', null),
  ])
  t.equal(await collect(), 'abcdef')
})

t.test('an export that cannot be complete says so at its end', async (t) => {
  const { collect, ids, urls } = await walk(t, [page('ab', null, 7)])
  await t.rejects(collect(), { code: 'incomplete', message: /7 accepted events/ })
  t.strictSame(ids, ['a', 'b'])
  t.equal(urls().length, 12)
})
