/** Of one piece of memory; bodies are laid into it one behind the other. */
const SLAB_BYTES = 2 * 1024 * 1024
/** What is kept for later where nobody needs it now. */
const MAX_FREE_SLABS = 32
/** Room for what the journal's tail and those who wait for the journal hold; bodies beyond get memory of their own. */
const MAX_SLABS = 96

interface Slab {
  bytes: Buffer
  /** bodies in it that nobody has given back */
  lent: number
}

/**
 * Memory for bodies, used again once they are stored. V8 counts the bytes of every buffer that has lived longer than a
 * moment, and marks its whole heap when some MB have come together: under full load of batches 20 times a second, for a
 * third of the process' CPU; under single events every 2 s, each time making some of them wait 40 ms.
 *
 * Giving back is voluntary: what nobody gives back is freed by the garbage collector, as any buffer, with its slab. Until
 * then one body that stays holds the whole slab, so the slabs that live are bounded.
 */
export class BufferPool {
  readonly #lentFrom = new WeakMap<ArrayBufferLike, Slab>()
  readonly #free: Slab[] = []
  #current: Slab | null = null
  #used = 0
  #living = 0
  readonly #collected = new FinalizationRegistry(() => {
    this.#living--
  })

  /** @returns one buffer with the bytes of all: a piece of a slab, or memory that is not lent where none has room */
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
    slab.lent++
    return body
  }

  /** Nobody reads these bytes any more; to be said once of each. A buffer that is not from here is left alone. */
  release(body: Buffer): void {
    const slab = this.#lentFrom.get(body.buffer)
    if (!slab || --slab.lent > 0) return
    if (slab === this.#current) this.#used = 0
    else this.#keep(slab)
  }

  /** The slab to lay a body into at #used; null where none has room and as many live as may. */
  #slabFor(length: number): Slab | null {
    if (this.#current && this.#used + length <= SLAB_BYTES) return this.#current
    const slab = this.#free.pop() ?? this.#makeSlab()
    if (!slab) return null
    this.#current = slab
    this.#used = 0
    return slab
  }

  #makeSlab(): Slab | null {
    if (this.#living >= MAX_SLABS) return null
    const slab = { bytes: Buffer.allocUnsafeSlow(SLAB_BYTES), lent: 0 }
    this.#lentFrom.set(slab.bytes.buffer, slab)
    this.#collected.register(slab.bytes.buffer, undefined)
    this.#living++
    return slab
  }

  #keep(slab: Slab): void {
    if (this.#free.length < MAX_FREE_SLABS) this.#free.push(slab)
  }
}
