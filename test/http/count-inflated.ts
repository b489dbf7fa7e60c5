import { Transform } from 'node:stream'
import type { Test } from 'tap'

/** @returns a function for the bytes that zlib has inflated in this process since the call */
export function countInflated(t: Test): () => number {
  let bytes = 0
  const push = Transform.prototype.push
  Transform.prototype.push = function (this: Transform, chunk: unknown, encoding?: BufferEncoding) {
    if ('bytesWritten' in this && Buffer.isBuffer(chunk)) bytes += chunk.length
    return push.call(this, chunk, encoding)
  }
  t.teardown(() => {
    Transform.prototype.push = push
  })
  return () => bytes
}
