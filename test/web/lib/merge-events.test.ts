import t from 'tap'
import { addNewEvents, mergeLatest } from '../../../src/web/lib/merge-events.js'

const events = (...ids: string[]) => ids.map((eventId) => ({ eventId }))

t.test('addNewEvents prepends new events once', async (t) => {
  t.strictSame(addNewEvents(events('3', '2'), events('2', '3', '4', '5'), 10), events('5', '4', '3', '2'))
  t.strictSame(addNewEvents(events('3', '2'), events('4', '5'), 3), events('5', '4', '3'))
  const known = events('3')
  t.equal(addNewEvents(known, events('2'), 3), known, 'nothing new')
})

t.test('mergeLatest replaces the events that the latest read covers', async (t) => {
  const known = events('5', '4', '3', '2', '1')
  const read = (ids: string[], since: string | null) => mergeLatest(known, { events: events(...ids), since }, '5', 10)
  t.strictSame(read(['7', '6', '4'], '4'), events('7', '6', '4', '3', '2', '1'), 'event 5 was deleted')
  t.strictSame(read(['9', '8'], '8'), events('9', '8'), 'there may be a 6 and a 7')
  t.strictSame(read(['7', '3'], null), events('7', '3'), 'no other events match')
  t.strictSame(mergeLatest([], { events: events('2', '1'), since: '1' }, '', 10), events('2', '1'))
})
