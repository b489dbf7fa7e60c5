/** Size of a slab; bodies are placed into it one after another. */
const SLAB_BYTES = 2 * 1024 * 1024
/** Free slabs that are kept for reuse. */
const MAX_FREE_SLABS = 32
/** Room for the journal's unstored entries and for bodies that wait to be committed. Further bodies are not pooled. */
const MAX_SLABS = 96

interface Slab {
  bytes: Buffer
  /** bodies in it that are not released yet */
  pooled: Set<Buffer>
}

/**
 * Memory for bodies, reused once they are stored. V8 counts the bytes of buffers that survive a minor collection, and
 * marks its whole heap after some MB of them: 20 times a second under full load of batches, which takes a third of the
 * process's CPU, and every 2 s under full load of single events, some of which then wait 40 ms.
 *
 * Releasing is optional: a body that is never released is garbage collected like any buffer, together with its slab.
 * Until then one body keeps its whole slab alive, so the number of slabs is bounded.
 */
export class BufferPool {
  readonly #slabs = new WeakMap<ArrayBufferLike, Slab>()
  readonly #free: Slab[] = []
  #current: Slab | null = null
  #used = 0
  #alive = 0
  readonly #collected = new FinalizationRegistry(() => {
    this.#alive--
  })

  /** Joins chunks. @returns a piece of a slab, or an ordinary buffer if no slab has room */
  concat(chunks: Buffer[], length: number): Buffer {
    const slab = length > SLAB_BYTES / 2 ? null : this.#slabFor(length)
    if (!slab) return Buffer.concat(chunks, length)
    let at = this.#used
    const body = slab.bytes.subarray(at, at + length)
    for (const chunk of chunks) {
      slab.bytes.set(chunk, at)
      at += chunk.length
    }
    this.#used = at
    slab.pooled.add(body)
    return body
  }

  /** The UTF-8 bytes of a text, in a buffer from the pool, as with `concat`. */
  encode(text: string): Buffer {
    const length = Buffer.byteLength(text)
    const slab = length > SLAB_BYTES / 2 ? null : this.#slabFor(length)
    if (!slab) return Buffer.from(text)
    const body = slab.bytes.subarray(this.#used, this.#used + length)
    body.write(text)
    this.#used += length
    slab.pooled.add(body)
    return body
  }

  /**
   * Call it after the last read of a buffer. Ignores one that is released already, or not from this pool.
   * @param body the object that the pool returned: it stands for the right to its memory, so a copy does not count
   */
  release(body: Buffer): void {
    const slab = this.#slabs.get(body.buffer)
    if (!slab?.pooled.delete(body) || slab.pooled.size > 0) return
    if (slab === this.#current) this.#used = 0
    else this.#keep(slab)
  }

  /** The slab that takes a body at #used; null if none has room and the limit is reached. */
  #slabFor(length: number): Slab | null {
    if (this.#current && this.#used + length <= SLAB_BYTES) return this.#current
    const slab = this.#free.pop() ?? this.#makeSlab()
    if (!slab) return null
    this.#current = slab
    this.#used = 0
    return slab
  }

  #makeSlab(): Slab | null {
    if (this.#alive >= MAX_SLABS) return null
    const slab = { bytes: Buffer.allocUnsafeSlow(SLAB_BYTES), pooled: new Set<Buffer>() }
    this.#slabs.set(slab.bytes.buffer, slab)
    this.#collected.register(slab.bytes.buffer, undefined)
    this.#alive++
    return slab
  }

  #keep(slab: Slab): void {
    if (this.#free.length < MAX_FREE_SLABS) this.#free.push(slab)
  }
}
