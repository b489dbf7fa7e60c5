import type { Database } from 'lmdb'

export const BUCKET_BYTES = 4

/** The smallest key of a bucket, in a table whose keys begin with the bucket. */
export function bucketStart(bucket: number): Buffer {
  const key = Buffer.allocUnsafe(BUCKET_BYTES)
  key.writeUInt32BE(Math.max(0, bucket))
  return key
}

/** Lists the buckets that have keys in such a table, in order. */
export function* bucketsIn(table: Database<Buffer, Buffer>): Generator<number> {
  for (let bucket = 0; ; bucket++) {
    const [key] = table.getKeys({ start: bucketStart(bucket), limit: 1 })
    if (!key) return
    bucket = key.readUInt32BE()
    yield bucket
  }
}
