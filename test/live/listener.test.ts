import { once } from 'node:events'
import t from 'tap'
import { type Ending, Listener } from '../../src/live/listener.js'
import { keepStep } from '../../src/live/tail.js'
import { until } from '../helper.js'

function listener() {
  const endings: (Ending | null)[] = []
  const errors: Error[] = []
  const stream = new Listener({
    projectId: 'p',
    wanted: {},
    bufferBytes: 1_000,
    isAllowed: () => true,
    onEnd: (_, ending) => endings.push(ending),
  })
  stream.on('error', (error) => errors.push(error))
  return { stream, endings, errors }
}

t.test('a stream that ends is sent nothing more, and has no error', async (t) => {
  for (const ending of ['revoked', 'closing'] as const) {
    const { stream, endings, errors } = listener()
    const read: string[] = []
    stream.on('data', (chunk) => read.push(String(chunk)))
    stream.send(Buffer.from('a'))
    await until('the stream to be read', () => stream.keepsUp)
    const closed = once(stream, 'close')
    stream.stop(ending)
    stream.send(Buffer.from('b'))
    await closed
    t.strictSame(errors, [])
    t.strictSame(endings, [ending])
    t.equal(read.at(-1), 'a')
  }
})

t.test('the stream of a client that does not read is removed once its key is revoked', async (t) => {
  const { stream, endings, errors } = listener()
  const closed = once(stream, 'close')
  stream.send(Buffer.from('a'))
  stream.stop('revoked')
  t.ok(stream.destroyed)
  await closed
  t.strictSame(errors, [])
  t.strictSame(endings, ['revoked'])
})

t.test('others wait for a client that reads, and only once for one that does not', async (t) => {
  const { stream } = listener()
  const isWaitedFor = async () => {
    let isOver = false
    const waiting = keepStep([stream]).then(() => {
      isOver = true
    })
    await new Promise(setImmediate)
    const wasOver = isOver
    await waiting
    return !wasOver
  }
  t.equal(await isWaitedFor(), true)
  stream.send(Buffer.from('a'))
  t.equal(await isWaitedFor(), false)
  stream.read(1)
  t.ok(stream.readableLength > 0)
  t.equal(await isWaitedFor(), true)
  stream.read()
  t.equal(stream.stalledMs, 0)
  t.equal(await isWaitedFor(), false)
  stream.send(Buffer.from('b'))
  t.equal(await isWaitedFor(), true)
  stream.destroy()
})
