import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { Spool, SpoolMemory } from '../../src/clickhouse/spool.js'
import { until } from '../helper.js'

const KIB = 1024

/** Random bytes, so that a wrong order is noticed. */
const chunksOf = (count: number) => Array.from({ length: count }, (_, n) => Buffer.alloc(KIB, n))

t.test('Spool takes a result that fits immediately, so that its source ends even if nobody reads', async (t) => {
  const memory = new SpoolMemory({ answerBytes: 100 * KIB, totalBytes: 1000 * KIB })
  const chunks = chunksOf(99)
  const source = Readable.from(chunks, { objectMode: false })
  const spool = new Spool(source, memory, { onStall: () => t.fail('it does not stall') })
  await once(source, 'end')
  t.equal(memory.held, 99 * KIB)
  t.ok((await buffer(spool)).equals(Buffer.concat(chunks)))
  t.equal(memory.held, 0)
})

t.test('Spool pauses the source of a larger result until it is read, and reports since when', async (t) => {
  const memory = new SpoolMemory({ answerBytes: 10 * KIB, totalBytes: 1000 * KIB })
  const chunks = chunksOf(500)
  const source = Readable.from(chunks, { objectMode: false })
  const stalls: (number | null)[] = []
  const spool = new Spool(source, memory, { onStall: (since) => stalls.push(since) })
  await until('the pause', () => source.isPaused())
  t.equal(memory.held, 10 * KIB)
  t.type(stalls.at(-1), 'number')
  t.ok((await buffer(spool)).equals(Buffer.concat(chunks)))
  t.equal(stalls.at(-1), null)
  t.equal(memory.held, 0)
})

t.test(
  'Spool shares its memory within a process, and passes a result on as it is read if there is none left',
  async (t) => {
    const memory = new SpoolMemory({ answerBytes: 100 * KIB, totalBytes: 20 * KIB })
    const first = new Spool(Readable.from(chunksOf(50), { objectMode: false }), memory, { onStall() {} })
    await until('the memory to be full', () => memory.held === 20 * KIB)
    const chunks = chunksOf(200)
    const second = new Spool(Readable.from(chunks, { objectMode: false }), memory, { onStall() {} })
    t.ok((await buffer(second)).equals(Buffer.concat(chunks)))
    first.destroy()
    await once(first, 'close')
    t.equal(memory.held, 0, 'unread memory is released')
  },
)

t.test('Spool ends only if its source has ended', async (t) => {
  const memory = new SpoolMemory({ answerBytes: 100 * KIB, totalBytes: 100 * KIB })
  for (const error of [new Error('broken'), undefined]) {
    const source = new PassThrough()
    const spool = new Spool(source, memory, { onStall() {} })
    source.write(Buffer.alloc(KIB))
    setImmediate(() => source.destroy(error))
    await t.rejects(buffer(spool), { message: error?.message ?? 'the result ended before it was complete' })
  }
  t.equal(memory.held, 0)
})

t.test('Spool does not count what its source sends after its end', async (t) => {
  const memory = new SpoolMemory({ answerBytes: 100 * KIB, totalBytes: 100 * KIB })
  const source = new PassThrough()
  const spool = new Spool(source, memory, { onStall() {} })
  source.emit('data', Buffer.alloc(KIB))
  t.equal(memory.held, KIB)
  spool.destroy()
  source.emit('data', Buffer.alloc(KIB))
  t.equal(memory.held, 0)
})

t.test('Spool pauses after each chunk while others need the thread, and passes everything on', async (t) => {
  const memory = new SpoolMemory({ answerBytes: 100 * KIB, totalBytes: 1000 * KIB })
  const chunks = chunksOf(50)
  const source = Readable.from(chunks, { objectMode: false })
  let asked = 0
  let paused = 0
  const yields = () => ++asked <= 20
  const spool = new Spool(source, memory, { onStall: () => t.fail('the client is not slow'), yields })
  source.on('pause', () => paused++)
  t.ok((await buffer(spool)).equals(Buffer.concat(chunks)))
  t.equal(asked, 50, 'each chunk asks')
  t.equal(paused, 20)
})
