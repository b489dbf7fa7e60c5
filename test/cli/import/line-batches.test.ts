import fc from 'fast-check'
import t from 'tap'
import type { Batch } from '../../../src/cli/import/batches.js'
import { isSentAsLines, type LineBatch, LineBatches } from '../../../src/cli/import/lines/line-batches.js'
import { sortLines } from '../../../src/cli/import/lines/sort-lines.js'
import type { InputOffset } from '../../../src/cli/import/lines.js'
import { FirstTime, OWN_NAMES, type SourceOptions } from '../../../src/cli/import/native-rows.js'
import { batchesOf, eventsOf, pieces, rejectsOf, START } from './batches.js'

const NATIVE: SourceOptions = { names: OWN_NAMES, time: undefined, from: undefined }
const LIMITS = { events: 3, bytes: 400 }

async function lineBatchesOf(text: string | Buffer, sizes?: number[], start: InputOffset = START) {
  const batches = new LineBatches(new FirstTime(NATIVE, start.offset === 0), LIMITS, start, 0)
  const all: LineBatch[] = []
  for await (const batch of batches.read(pieces(Buffer.from(text).subarray(start.offset), sizes).read(0))) {
    all.push({ ...batch, body: Buffer.from(batch.body) })
    batches.release(batch)
  }
  return all
}

const good = '{"event":"a","distinct_id":"u","properties":{}}'
const line = fc.oneof(
  fc.constantFrom(
    good,
    `${good}${good}`,
    '',
    ' \t',
    '\r',
    '{',
    'ü'.repeat(70),
    `${good}\r`,
    good.replace('u', 'x'.repeat(300)),
  ),
  fc.constantFrom('{"event":"a","distinct_id":"u","price":1.0}', '{"\\u0065vent":"a","distinct_id":"u"}'),
)

t.test('batches are the bytes of the input, however they are chunked', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { maxLength: 20 }),
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      async (lines, sizes, hasEnd) => {
        const text = `${[good, ...lines].join('\n')}${hasEnd ? '\n' : ''}`
        const all = await lineBatchesOf(text, sizes)
        t.equal(Buffer.concat(all.map(({ body }) => body)).toString(), text)
        t.strictSame(all, await lineBatchesOf(text), 'from other pieces')
        let next: InputOffset = START
        for (const { body, count, start, end } of all) {
          t.strictSame(start, next)
          t.ok(
            count <= LIMITS.events && (count <= 1 || body.length <= LIMITS.bytes),
            `${count} lines, ${body.length} bytes`,
          )
          const again = await lineBatchesOf(text, sizes, start)
          t.strictSame(again[0], { ...all.find((batch) => batch.start === start), index: 0 }, 'from where it starts')
          next = end
        }
        const sorted: Batch[] = []
        for (const batch of all.filter(({ count }) => count > 0)) sorted.push(await sortLines(batch, NATIVE))
        const rows = await batchesOf(pieces(text))
        t.strictSame(eventsOf(sorted), eventsOf(rows))
        t.strictSame(rejectsOf(sorted), rejectsOf(rows))
        t.strictSame(
          sorted.flatMap(({ lines }) => lines),
          rows.flatMap(({ lines }) => lines),
        )
      },
    ),
    { numRuns: 40 },
  )
})

t.test('the first time of an input decides the format, wherever it is', async (t) => {
  const timed = (time: number) => good.replace('}}', `},"timestamp":${time}}`)
  await t.rejects(lineBatchesOf(`${good}\n\n{\n${timed(1700000000)}\n`, [7]), { message: /before 1973/ })
  t.equal((await lineBatchesOf(`${good}\r\n${timed(1700000000000)}\n${timed(1)}`, [7])).length, 1)
})

t.test('an input is sent as lines if its first row is an event', async (t) => {
  const decide = (text: string, options = {}) => isSentAsLines(Buffer.from(text), { ...NATIVE, ...options })
  t.equal(await decide(`\n${good}\r\n{`), true)
  t.equal(await decide('{"eventId":"x","event":"a","distinct_id":"u","properties":null}\n'), true)
  for (const text of ['', good, '{\n', '{"event":"a","distinct_id":"u","price":1}\n', `${good},${good}\n`]) {
    t.equal(await decide(text), false, text)
  }
  t.equal(await decide(`${good}\n`, { time: 's' }), false)
  t.equal(await decide(`${good}\n`, { from: 'segment' }), false)
  t.equal(await decide(`${good}\n`, { names: { ...OWN_NAMES, event: 'name' } }), false)
})
