import t from 'tap'
import { type Sent, shopYear } from '../../src/cli/demo/shop.js'

const DAY_MS = 86_400_000
const MIDNIGHT = Date.UTC(2026, 3, 24)

const timesOf = (sent: Iterable<Sent>) =>
  [...sent].flatMap((one) => (one.type === 'event' ? [(one.event as { timestamp: number }).timestamp] : []))

t.test('the year ends at the given time, and its last day has its share', async (t) => {
  const options = { events: 30_000, seed: 1 }
  for (const hours of [0, 1, 15, 24]) {
    const until = MIDNIGHT + hours * 3_600_000
    const times = timesOf(shopYear({ ...options, until }))
    t.equal(times.length, options.events)
    t.ok(Math.max(...times) <= until)
    t.ok(Math.min(...times) >= MIDNIGHT - 365 * DAY_MS)
    const onDay = (day: number) => times.filter((at) => Math.floor(at / DAY_MS) === MIDNIGHT / DAY_MS + day).length
    t.ok(onDay(-1) > 50, `${onDay(-1)} on the day before`)
    if (hours === 15) t.ok(onDay(0) > 10, `${onDay(0)} until three in the afternoon`)
    if (hours === 24) t.ok(onDay(0) > 50, `${onDay(0)} on the whole day`)
  }
  const visits = [...shopYear({ ...options, until: MIDNIGHT })]
  t.strictSame(visits, [...shopYear({ ...options, until: MIDNIGHT })], 'the same options make the same data')
})
