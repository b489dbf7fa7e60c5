import fc from 'fast-check'
import t from 'tap'
import { SseParser } from '../../../src/web/api/sse-parser.js'

t.test('SseParser parses events from chunks of any size', async (t) => {
  const texts = ['{"a":1}', '{\n"b":\n\n2}', '{"data: ":": x"}', '"é😀"']
  const frames = texts.map((text, i) => `id: ${i}\ndata: ${text.replaceAll('\n', '\ndata: ')}\n\n`)
  const stream = `retry: 2000\n\n: beat\n\n${frames.join(':\n\n')}`
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 40 })), (sizes) => {
      const parser = new SseParser()
      const found: string[] = []
      let at = 0
      for (const size of [...sizes, stream.length]) {
        found.push(...parser.push(stream.slice(at, at + size)))
        at += size
      }
      t.strictSame(found, texts)
    }),
  )
})
