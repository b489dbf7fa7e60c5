import fc from 'fast-check'
import t from 'tap'
import { asBytes, type LiveEvent, RowParser } from '../../src/live/row-parser.js'

const event = fc.record({
  id: fc.uuid(),
  event: fc.string({ unit: 'grapheme', maxLength: 300 }),
  distinctId: fc.string({ unit: 'grapheme', maxLength: 20 }),
  sessionId: fc.string({ unit: 'grapheme', maxLength: 20 }),
  timestamp: fc.double({ noNaN: true }),
  frame: fc.oneof(fc.string({ unit: 'grapheme' }), fc.constant('x'.repeat(20_000))),
})

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  const length: number[] = []
  for (let rest = bytes.length; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.concat([Buffer.from([...length, rest]), bytes])
    length.push((rest % 128) + 128)
  }
}

function time(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

t.test('rows are the same in chunks of any size', async () => {
  fc.assert(
    fc.property(fc.array(event), fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1 }), (rows, sizes) => {
      const bytes = Buffer.concat(
        rows.flatMap((row) => [
          text(row.id),
          text(row.event),
          text(row.distinctId),
          text(row.sessionId),
          time(row.timestamp),
          text(row.frame),
        ]),
      )
      const parser = new RowParser()
      const read: LiveEvent[] = []
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = sizes[i % sizes.length] ?? 1
        read.push(...parser.take(bytes.subarray(at, at + size)))
        at += size
      }
      const wanted = rows.map((row) => ({
        ...row,
        event: asBytes(row.event),
        distinctId: asBytes(row.distinctId),
        sessionId: asBytes(row.sessionId),
      }))
      const found = read.map((row) => ({ ...row, frame: row.frame.toString() }))
      if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`read ${JSON.stringify(found)}`)
      if (!parser.isWhole) throw new Error('a part is left')
    }),
  )
})

t.test('an incomplete row is noticed', async (t) => {
  const parser = new RowParser()
  const bytes = Buffer.concat([text('id'), text('e'), text('u'), text(''), time(1), text('frame')])
  t.strictSame(parser.take(bytes.subarray(0, -1)), [])
  t.notOk(parser.isWhole)
  t.equal(parser.take(bytes.subarray(-1))[0]?.frame.toString(), 'frame')
  t.ok(parser.isWhole)
})
