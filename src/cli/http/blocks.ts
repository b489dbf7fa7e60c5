/** What a socket is read into at a time, and a file written from: more than a processor's cache holds is slower. */
export const BLOCK_BYTES = 1024 * 1024
/** Before each block, for the beginning of a row whose end it has. */
const ROOM_BYTES = 16 * 1024
const MAX_FREE = 8

/** Memory for what an export reads, used again and again: fresh memory costs more than the bytes that are copied into it. */
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
    // Until it is taken again, it is not known any more, so a second release does nothing.
    if (!this.#ours.delete(buffer)) return
    if (this.#free.length < MAX_FREE) this.#free.push(buffer as ArrayBuffer)
  }

  /** One buffer with all of the bytes. Nothing but `rest` is copied if there is room for it before a block. */
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
