import type { Database } from 'lmdb'

export const BUCKET_BYTES = 4

/** The first key that a bucket may have, in a table whose keys begin with one. */
export function bucketStart(bucket: number): Buffer {
  const key = Buffer.allocUnsafe(BUCKET_BYTES)
  key.writeUInt32BE(Math.max(0, bucket))
  return key
}

/** The buckets of which such a table has a key, in their order. */
export function* bucketsIn(table: Database<Buffer, Buffer>): Generator<number> {
  for (let bucket = 0; ; bucket++) {
    const [key] = table.getKeys({ start: bucketStart(bucket), limit: 1 })
    if (!key) return
    bucket = key.readUInt32BE()
    yield bucket
  }
}
