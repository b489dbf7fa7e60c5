import fc from 'fast-check'
import t from 'tap'
import {
  type EventPlace,
  eventIdFormatter,
  formatEventId,
  idHalves,
  lastIdAt,
  parseEventId,
} from '../../src/model/event-id.js'
import { START } from '../../src/model/position.js'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const MAX_INDEX = 2 ** 26 - 1
const MAX_JOURNAL = 2 ** 32 - 1

const position = fc.oneof(
  fc.bigInt(0n, 2n ** 64n - 1n),
  // Neighbours are where an order breaks.
  fc.bigInt(0n, 40n).map((near) => (1_700_000_000_000n << 16n) + near),
)
const index = fc.oneof(fc.integer({ min: 0, max: MAX_INDEX }), fc.constantFrom(0, 1, 999, MAX_INDEX))
const journalId = fc.oneof(fc.integer({ min: 0, max: MAX_JOURNAL }), fc.constantFrom(0, MAX_JOURNAL))
const place: fc.Arbitrary<EventPlace> = fc.record({ position, index, journalId })

const bits = (id: string) => BigInt(`0x${id.replaceAll('-', '')}`)

t.test('known ids', async (t) => {
  const rows: [place: EventPlace, id: string][] = [
    [{ position: 0n, index: 0, journalId: 0 }, '00000000-0000-7000-8000-000000000000'],
    [{ position: 1n, index: 0, journalId: 0 }, '00000000-0000-7000-8400-000000000000'],
    [{ position: 16n, index: 0, journalId: 0 }, '00000000-0000-7001-8000-000000000000'],
    [{ position: 0n, index: 1, journalId: 0 }, '00000000-0000-7000-8000-000100000000'],
    [{ position: 0n, index: 0, journalId: 0xdeadbeef }, '00000000-0000-7000-8000-0000deadbeef'],
    [{ position: 0x0123456789abn << 16n, index: 0, journalId: 0 }, '01234567-89ab-7000-8000-000000000000'],
    [{ position: 2n ** 64n - 1n, index: MAX_INDEX, journalId: MAX_JOURNAL }, 'ffffffff-ffff-7fff-bfff-ffffffffffff'],
  ]
  for (const [place, id] of rows) {
    t.equal(formatEventId(place), id)
    t.same(parseEventId(id), place)
  }
})

t.test('an id is a UUIDv7 that encodes its place', async () => {
  fc.assert(
    fc.property(place, (place) => {
      const id = formatEventId(place)
      const read = parseEventId(id)
      return (
        UUID_V7.test(id) &&
        read?.position === place.position &&
        read.index === place.index &&
        read.journalId === place.journalId
      )
    }),
  )
})

t.test('the time of the UUIDv7 is the time of the position', async () => {
  fc.assert(fc.property(place, (place) => Number(bits(formatEventId(place)) >> 80n) === Number(place.position >> 16n)))
})

t.test('formatEventId reverses parseEventId', async () => {
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), (id) => {
      const place = parseEventId(id)
      return place !== null && formatEventId(place) === id
    }),
  )
})

t.test('ids sort by position, then by index', async () => {
  fc.assert(
    fc.property(place, place, (a, b) => {
      const before = a.position === b.position ? a.index < b.index : a.position < b.position
      const same = a.position === b.position && a.index === b.index
      const [first, second] = [formatEventId(a), formatEventId(b)]
      if (same) return bits(first) < bits(second) === a.journalId < b.journalId
      return bits(first) < bits(second) === before && first < second === before
    }),
  )
})

t.test('idHalves gives the ids of a whole entry', async () => {
  fc.assert(
    fc.property(place, ({ position, index, journalId }) => {
      const { high, low } = idHalves(position, journalId)
      // What the INSERT does: wrapping arithmetic of 64 bits, then the two halves side by side.
      const lowOfEvent = BigInt.asUintN(64, low + (BigInt(index) << 32n))
      return bits(formatEventId({ position, index, journalId })) === ((high << 64n) | lowOfEvent)
    }),
  )
})

t.test('lastIdAt is the greatest id up to a position', async () => {
  fc.assert(
    fc.property(place, position, (place, limit) => {
      return bits(formatEventId(place)) <= bits(lastIdAt(limit)) === place.position <= limit
    }),
  )
  t.equal(parseEventId(lastIdAt(START))?.position, START)
})

t.test('parseEventId accepts upper case', async (t) => {
  const id = formatEventId({ position: 0x0abcdef0n << 16n, index: 10, journalId: 0xabcdef })
  t.same(parseEventId(id.toUpperCase()), parseEventId(id))
  t.not(id.toUpperCase(), id)
})

t.test('parseEventId refuses strings that are not ids', async (t) => {
  const texts = [
    '',
    'x',
    '00000000-0000-7000-8000-00000000000',
    '00000000-0000-7000-8000-0000000000000',
    '00000000-0000-4000-8000-000000000000',
    '00000000-0000-7000-0000-000000000000',
    '00000000-0000-7000-c000-000000000000',
    '00000000000070008000000000000000',
    '{00000000-0000-7000-8000-000000000000}',
    ' 00000000-0000-7000-8000-000000000000',
    '00000000-0000-7000-8000-000000000000\n',
    '0000000g-0000-7000-8000-000000000000',
    '00000000-0000-7000-8000-000000000000,00000000-0000-7000-8000-000000000000',
  ]
  for (const text of texts) t.equal(parseEventId(text), null, JSON.stringify(text))
  fc.assert(fc.property(fc.string(), (text) => UUID_V7.test(text.toLowerCase()) || parseEventId(text) === null))
})

t.test('eventIdFormatter formats ids in any order', async () => {
  const places = fc.array(fc.record({ position, index }), { maxLength: 20 })
  fc.assert(
    fc.property(journalId, places, (journalId, places) => {
      const format = eventIdFormatter(journalId)
      return places.every((place) => format(place) === formatEventId({ ...place, journalId }))
    }),
  )
})
