import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { StoreError } from '../../src/clickhouse/errors.js'
import { untilException } from '../../src/clickhouse/exception-guard.js'

const TAG = 'gwcuqlcihmjkjwkt'
/** An error as ClickHouse 26.7 sends it after the rows. */
const EXCEPTION =
  `\r\n__exception__\r\n${TAG}\r\nCode: 395. DB::Exception: Value passed to 'throwIf' function is non-zero. ` +
  `(FUNCTION_THROW_IF_VALUE_IS_NON_ZERO) (version 26.7.2.1)\n263 ${TAG}\r\n__exception__\r\n`

/** Pieces of errors, and other text. */
const rows = fc
  .array(
    fc.constantFrom('row\n', '\r\n', '__exception__', '__exception__\r\n', TAG, TAG.slice(0, 15), '_', 'Code: 1. ü'),
  )
  .map((parts) => parts.join(''))
  .filter((text) => !text.includes(`__exception__\r\n${TAG}\r\n`))
const cuts = fc.array(fc.nat(400))

function cut(text: string, places: number[]): Buffer[] {
  const bytes = Buffer.from(text)
  const sorted = [0, ...places.filter((place) => place < bytes.length).sort((a, b) => a - b), bytes.length]
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end))
}

/** The outcome of a response. */
async function outcome(answer: Readable): Promise<{ text: string; error: unknown }> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of untilException(answer, TAG)) chunks.push(chunk)
    return { text: Buffer.concat(chunks).toString(), error: null }
  } catch (error) {
    return { text: Buffer.concat(chunks).toString(), error }
  }
}

t.test('untilException passes rows unchanged, however they are chunked', async (t) => {
  const property = fc.asyncProperty(rows, cuts, async (text, places) => {
    const { text: passed, error } = await outcome(Readable.from(cut(text, places)))
    return error === null && passed === text
  })
  await t.resolves(fc.assert(property))
})

t.test('untilException breaks the stream at an error after the rows, and passes none of its text', async (t) => {
  const property = fc.asyncProperty(rows, cuts, fc.boolean(), async (text, places, isCompleted) => {
    const pieces = cut(text + EXCEPTION, places)
    const answer = Readable.from(
      (async function* () {
        yield* pieces
        if (!isCompleted) throw new Error('aborted')
      })(),
    )
    const { text: passed, error } = await outcome(answer)
    // Bytes that were not read before the connection broke are lost, and perhaps the reason with them.
    const isKnown = error instanceof StoreError && error.code === 395
    return (isCompleted ? isKnown : error !== null) && `${text}\r\n__exception__\r\n${TAG}`.startsWith(passed)
  })
  await t.resolves(fc.assert(property))
})

t.test('untilException breaks the stream if the response is cut off', async (t) => {
  const answer = Readable.from(
    (async function* () {
      yield Buffer.from('row\n')
      throw new Error('aborted')
    })(),
  )
  t.match(await outcome(answer), { error: { message: 'aborted' } })
})

t.test('untilException ends the response if its reader stops', async (t) => {
  const answer = new Readable({ read: () => undefined })
  const stream = untilException(answer, TAG)
  stream.destroy()
  await new Promise((resolve) => answer.once('close', resolve))
  t.ok(answer.destroyed)
})
