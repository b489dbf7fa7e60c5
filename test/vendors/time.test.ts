import t from 'tap'
import { toMilliseconds } from '../../src/vendors/time.js'

/** With a zone, which the fast path does not read. */
const slowly = (text: string) => toMilliseconds(text.replace('Z', '+00:00'), 'iso')

t.test('toMilliseconds reads the format of toISOString like any other', async (t) => {
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

t.test('toMilliseconds refuses impossible zones', async (t) => {
  const at = Date.UTC(2024, 0, 1, 10)
  for (const [zone, hours] of [
    ['+14:00', 14],
    ['-1200', -12],
    ['+23', 23],
    ['+05:30', 5.5],
  ] as const) {
    t.equal(toMilliseconds(`2024-01-01T10:00:00${zone}`, 'iso'), at - hours * 3_600_000, zone)
  }
  for (const zone of ['+24:00', '+99:00', '-25', '+01:60', '+0199']) {
    t.equal(toMilliseconds(`2024-01-01T10:00:00${zone}`, 'iso'), null, zone)
  }
})
