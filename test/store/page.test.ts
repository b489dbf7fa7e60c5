import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { wrapRows } from '../../src/store/page.js'
import { until } from '../helper.js'

const NEXT = '01a2048b-425f-7000-8000-000000000001'
const tail = (nextId: string | null) => `],"next":${JSON.stringify(nextId)}}`

t.test('wrapRows passes rows through unchanged, however they are chunked, and finds the id after them', async (t) => {
  const rows = fc.array(fc.record({ eventId: fc.uuid(), text: fc.string({ unit: 'grapheme', maxLength: 100 }) }), {
    minLength: 1,
    maxLength: 20,
  })
  const property = fc.asyncProperty(rows, fc.array(fc.nat(4000)), fc.boolean(), async (rows, places, hasNext) => {
    const texts = rows.map((row) => JSON.stringify(row))
    const bytes = Buffer.from([...texts, ...(hasNext ? [NEXT] : [])].join())
    const cuts = [0, ...places.filter((place) => place < bytes.length).sort((a, b) => a - b), bytes.length]
    const chunks = cuts.slice(1).map((end, i) => bytes.subarray(cuts[i], end))
    const whole = await text(wrapRows(Readable.from(chunks, { objectMode: false }), '{"rows":[', tail))
    return whole === `{"rows":[${texts.join()}${tail(hasNext ? NEXT : null)}`
  })
  await t.resolves(fc.assert(property))
})

t.test('wrapRows passes bytes on immediately, except for those that may be the id', async (t) => {
  const rows = new PassThrough()
  let passed = 0
  const page = wrapRows(rows, '', tail).on('data', (chunk: Buffer) => {
    passed += chunk.length
  })
  rows.write(`{"text":"${'x'.repeat(100_000)}"},${NEXT}`)
  await until('the row', () => passed === 100_011)
  rows.end()
  await until('the rest', () => page.readableEnded)
  t.equal(passed, 100_011 + tail(NEXT).length)
})

t.test('wrapRows breaks the stream if its tail throws', async (t) => {
  const page = wrapRows(Readable.from([Buffer.from('{}')]), '[', () => {
    throw new Error('no end')
  })
  await t.rejects(text(page), { message: 'no end' })
})
