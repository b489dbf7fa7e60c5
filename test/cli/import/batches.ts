import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type Batch, Batches } from '../../../src/cli/import/batches.js'
import { EventSource } from '../../../src/cli/import/event-source.js'
import { findFormat } from '../../../src/cli/import/formats.js'
import { type Input, openStream } from '../../../src/cli/import/input.js'
import { FirstTime, OWN_NAMES, type SourceOptions } from '../../../src/cli/import/native-rows.js'
import { openReader } from '../../../src/cli/import/readers.js'
import { elementTexts, memberText } from '../../../src/json/texts.js'

export const START = { offset: 0, line: 0 }
const NATIVE: SourceOptions = { names: OWN_NAMES, time: undefined, from: undefined }

const CSV = { delimiter: ',', hasStrays: false, types: new Map() }

/** The batches of an input from `start` on. Bodies are copied, because their buffers are reused. */
export async function batchesOf(input: Input, options: Partial<SourceOptions> = {}, start = START, events = 1000) {
  const all = { ...NATIVE, ...options }
  const source = new EventSource(all, new FirstTime(all, start.offset === 0))
  const reader = await openReader(input, start, findFormat((await input.head()).bytes), CSV)
  const batches = new Batches({ reader, source }, { events, bytes: 100_000 }, start, 0)
  const found: Batch[] = []
  for await (const batch of batches.read(input.read(start.offset))) {
    found.push({ ...batch, body: Buffer.from(batch.body) })
    batches.release(batch)
  }
  return found
}

export function eventsOf(batches: Batch[]): string[] {
  return batches.flatMap(({ body, count, lines }) => {
    const list = memberText(body.toString(), 'events') ?? ''
    const texts = elementTexts(list)
    assert.equal(texts.length, count)
    assert.equal(lines.length, count)
    return texts
  })
}

export function rejectsOf(batches: Batch[]): [line: number, reason: string][] {
  return batches.flatMap(({ rejects }) => rejects.map(({ line, reason }) => [line, reason] as [number, string]))
}

/** Standard input that arrives in chunks of these sizes, repeated. */
export function pieces(text: string | Buffer, sizes: number[] = [1_000_000]): Input {
  const bytes = Buffer.from(text)
  function* cut() {
    for (let at = 0, i = 0; at < bytes.length; i++) {
      const end = at + (sizes[i % sizes.length] ?? 1)
      // A copy, because the reader may write into a stream's chunks.
      yield Buffer.from(bytes.subarray(at, end))
      at = end
    }
  }
  return openStream(Readable.from(cut()))
}
