import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { decompress } from 'fzstd'
import t from 'tap'
import { ZstdInflate } from '../../../src/http/admission/zstd.js'
import { zstdBlock, zstdFrame } from '../../zstd-frame.js'

/** Of a frame with a window of 8 MiB, the largest. */
const LARGEST = [0x00, 0x68]

async function inflate(body: Buffer, pieceBytes = body.length || 1): Promise<Buffer> {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length; at += pieceBytes) pieces.push(body.subarray(at, at + pieceBytes))
  const stream = new ZstdInflate()
  Readable.from(pieces).pipe(stream)
  return await buffer(stream)
}

t.test('ZstdInflate inflates a frame in pieces of any size', async (t) => {
  const file = await readFile('test/data/two-frames.ndjson.zst')
  const frame = file.subarray(0, file.indexOf(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), 4))
  const whole = Buffer.from(decompress(frame))
  t.ok(whole.length > 10_000, 'of a real encoder')
  for (const bytes of [1, 2, 7, 1000, frame.length]) t.ok((await inflate(frame, bytes)).equals(whole), `${bytes} bytes`)
  await t.rejects(inflate(file), { code: 'FST_CP_ERR_INVALID_CONTENT' }, 'a second frame may be another event')
  for (const text of ['', 'a', '{"a":1}', `x${' '.repeat(1_000_000)}y`]) {
    for (const bytes of [1, 5, 1000]) t.equal((await inflate(zstdFrame(text), bytes)).toString(), text)
  }
  for (let length = 0; length < 40; length++)
    await t.rejects(inflate(zstdFrame('hello hello').subarray(0, length % 19)))
})

t.test('ZstdInflate makes one block at a time, as it is read', async (t) => {
  const run = zstdBlock(1, 128 * 1024, Buffer.from(' '), false)
  const bomb = Buffer.concat([zstdFrame('a').subarray(0, 6), ...Array(4_000).fill(run)])
  const stream = new ZstdInflate()
  stream.on('error', () => undefined)
  stream.end(bomb)
  await once(stream, 'readable')
  t.ok(stream.readableLength <= 512 * 1024, `${stream.readableLength} bytes wait`)
  let bytes = 0
  while (bytes < 10_000_000) {
    const chunk: Buffer | null = stream.read()
    if (chunk) bytes += chunk.length
    else await once(stream, 'readable')
  }
  t.ok(stream.readableLength <= 512 * 1024)
  stream.destroy()
})

t.test('ZstdInflate refuses frames that would cost more than their bytes', async (t) => {
  const tiny = Array.from({ length: 5_000 }, () => zstdBlock(1, 1, Buffer.from('a'), false))
  const many = Buffer.concat([zstdFrame('a', LARGEST).subarray(0, 6), ...tiny])
  const before = process.cpuUsage()
  await t.rejects(inflate(many), { code: 'FST_CP_ERR_INVALID_CONTENT' })
  const { user, system } = process.cpuUsage(before)
  t.ok(user + system < 1_000_000, 'the window is not moved for each byte')
  await t.rejects(inflate(zstdFrame('a', [0x00, 0x69])), 'a window over 8 MiB')
  const open = Array.from({ length: 40 }, () => {
    const stream = new ZstdInflate()
    const failed = once(stream, 'error').then(([error]) => error)
    stream.write(zstdFrame('hello', LARGEST).subarray(0, 8))
    return { stream, failed }
  })
  t.equal(open.filter(({ stream }) => stream.destroyed).length, 8, 'all windows together')
  t.match(await open.at(-1)?.failed, { code: 'overloaded' })
  for (const { stream } of open) stream.destroy()
  t.equal((await inflate(zstdFrame('hello', LARGEST))).toString(), 'hello', 'once the others are gone')
})
