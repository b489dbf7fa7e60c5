const MAX_BLOCK = 128 * 1024
/** fewer spaces are not worth a block */
const SPACES = ' '.repeat(100)
const MAGIC = [0x28, 0xb5, 0x2f, 0xfd]
/** without a size; the second byte is a window of 128 KiB */
const HEADER = [0x00, 0x38]

/**
 * A frame of zstd (RFC 8878) for the tests, as Node 20 cannot make any: runs of spaces are compressed, everything else
 * is not.
 */
export function zstdFrame(text: string, header: readonly number[] = HEADER): Buffer {
  const bytes = Buffer.from(text)
  const blocks: Buffer[] = []
  for (let start = 0; start < bytes.length || start === 0; ) {
    let end = start
    while (end < bytes.length && end - start < MAX_BLOCK && bytes[end] === 0x20) end++
    const isRun = end - start >= SPACES.length
    if (!isRun) {
      const spaces = bytes.indexOf(SPACES, start)
      end = Math.min(spaces === -1 ? bytes.length : Math.max(spaces, start + 1), start + MAX_BLOCK)
    }
    const piece = bytes.subarray(start, end)
    const isLast = end >= bytes.length
    blocks.push(zstdBlock(isRun ? 1 : 0, piece.length, isRun ? piece.subarray(0, 1) : piece, isLast))
    if (isLast) break
    start = end
  }
  return Buffer.concat([Buffer.from([...MAGIC, ...header]), ...blocks])
}

export function zstdBlock(type: number, size: number, content: Buffer, isLast: boolean): Buffer {
  const head = Buffer.alloc(3)
  head.writeUIntLE((size << 3) | (type << 1) | Number(isLast), 0, 3)
  return Buffer.concat([head, content])
}
