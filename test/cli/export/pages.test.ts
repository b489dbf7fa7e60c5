import t from 'tap'
import { type Filter, Pages } from '../../../src/cli/export/pages.js'
import { Connection } from '../../../src/client/connection.js'
import { answer, faultyServer } from '../../client/faulty-server.js'
import { SECRET_KEY } from '../../helper.js'

const ROW = '{"eventId":"0174876e-8000-7000-8000-000300000000","event":"e"}\n'
const rows = (text: string, next: string | null) =>
  answer(200, text, {
    'content-type': 'application/x-ndjson; charset=utf-8',
    'x-has-more': String(next !== null),
    'x-pending': '0',
    ...(next !== null && { 'x-next-cursor': next }),
  })

t.test('a short page is what a filter has found in the time; without a filter something is missing', async (t) => {
  const signal = new AbortController().signal
  const open = async (filter: Filter) => {
    const { url } = await faultyServer(t, [rows('', 'one'), rows(ROW, 'two'), rows(ROW, null)])
    return new Pages(new Connection({ url, secretKey: SECRET_KEY }), 'ndjson', filter)
  }
  const pages = await open({ event: 'rare', from: undefined })
  t.equal(pages.hasShortPages, false)
  t.match(await pages.read(null, signal), { rows: 0, lastId: null, next: 'one' })
  t.match(await pages.read('one', signal), { rows: 1, next: 'two' })
  t.match(await pages.read('two', signal), { rows: 1, next: null })
  t.equal(pages.hasShortPages, true)
  const unfiltered = await open({ event: undefined })
  await t.rejects(unfiltered.read(null, signal), { message: /came with 0 rows/ })
})
