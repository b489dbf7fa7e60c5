import t from 'tap'
import { toMilliseconds } from '../../src/vendors/time.js'

/** With a zone, which the short way does not read. */
const slowly = (text: string) => toMilliseconds(text.replace('Z', '+00:00'), 'iso')

t.test('times as most SDKs write them are read as any other', async (t) => {
  const days = [
    '01-01',
    '01-28',
    '01-29',
    '02-28',
    '02-29',
    '02-30',
    '02-31',
    '04-30',
    '04-31',
    '12-31',
    '12-32',
    '13-01',
    '00-01',
    '01-00',
  ]
  const times = [
    '00:00:00.000',
    '09:59:59.999',
    '19:30:00.001',
    '23:59:59.999',
    '24:00:00.000',
    '12:60:00.000',
    '12:00:60.000',
  ]
  for (const year of ['1969', '1970', '2024', '2026', '9999', '0000']) {
    for (const day of days) {
      for (const time of times) {
        const text = `${year}-${day}T${time}Z`
        t.equal(toMilliseconds(text, 'iso'), slowly(text), text)
      }
    }
  }
  t.equal(toMilliseconds('2026-01-02T03:04:05.678Z', 'iso'), Date.UTC(2026, 0, 2, 3, 4, 5, 678))
})
