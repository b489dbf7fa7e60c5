/** Size of the blocks between a socket and a file. Blocks that do not fit into the processor's cache are slower. */
export const BLOCK_BYTES = 1024 * 1024
/** Room before each block for the beginning of a row that ends in it. */
const ROOM_BYTES = 16 * 1024
const MAX_FREE = 8

/**
 * Reusable memory for the bytes that an export reads. Allocating new memory each time would cost more than copying into
 * this.
 */
export class Blocks {
  readonly #ours = new WeakSet<ArrayBufferLike>()
  readonly #free: ArrayBuffer[] = []

  take(): Buffer {
    const memory = this.#free.pop() ?? new ArrayBuffer(ROOM_BYTES + BLOCK_BYTES)
    this.#ours.add(memory)
    return Buffer.from(memory, ROOM_BYTES)
  }

  /** Call it once for each block, after the last read of its bytes. Other buffers are ignored. */
  release({ buffer }: Uint8Array): void {
    // Forgotten until it is taken again, so that a second release has no effect.
    if (!this.#ours.delete(buffer)) return
    if (this.#free.length < MAX_FREE) this.#free.push(buffer as ArrayBuffer)
  }

  /** Joins both into one buffer. Only `rest` is copied if it fits into the room before the block. */
  join(rest: Buffer, bytes: Buffer): Buffer {
    if (rest.length === 0) return bytes
    const start = bytes.byteOffset - rest.length
    if (start < 0 || !this.#ours.has(bytes.buffer)) {
      const joined = Buffer.concat([rest, bytes])
      this.release(bytes)
      return joined
    }
    const joined = Buffer.from(bytes.buffer, start, rest.length + bytes.length)
    rest.copy(joined)
    return joined
  }
}
