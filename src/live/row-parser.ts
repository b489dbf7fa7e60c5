/** A stored event, ready to be sent. Names are compared by their bytes, so they are read as Latin-1. */
export interface LiveEvent {
  id: string
  /** its UTF-8 bytes as Latin-1 */
  event: string
  /** its UTF-8 bytes as Latin-1 */
  distinctId: string
  /** its UTF-8 bytes as Latin-1; empty if the event has no session */
  sessionId: string
  /** epoch ms */
  timestamp: number
  /** the whole Server-Sent Event, with the empty line that ends it */
  frame: Buffer
}

/** A filter's name in the encoding that LiveEvent uses for names. */
export function asBytes(name: string): string {
  return Buffer.from(name).toString('latin1')
}

/** Reads the rows of `readTailRange` from chunks of any size. */
export class RowParser {
  #chunks: Buffer[] = []
  #held = 0
  /** number of bytes needed before another attempt makes sense, if known */
  #needed = 1
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0

  /** @returns the events that are complete now; their frames share the memory of the chunks */
  take(chunk: Buffer): LiveEvent[] {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    // A large row comes in many chunks, which are joined once.
    if (this.#held < this.#needed) return []
    this.#bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    this.#at = 0
    const events: LiveEvent[] = []
    for (let start = 0; ; start = this.#at) {
      const event = this.#row()
      if (event) {
        events.push(event)
        continue
      }
      const rest = this.#bytes.subarray(start)
      this.#chunks = rest.length > 0 ? [rest] : []
      this.#held = rest.length
      this.#needed -= start
      return events
    }
  }

  /** Whether the rows that were taken ended with a complete one. */
  get isWhole(): boolean {
    return this.#held === 0
  }

  #row(): LiveEvent | null {
    const id = this.#text()
    const event = id && this.#text()
    const distinctId = event && this.#text()
    const sessionId = distinctId && this.#text()
    const time = sessionId && this.#skip(8)
    const frame = time && this.#text()
    if (!frame) return null
    return {
      id: id.toString('latin1'),
      event: event.toString('latin1'),
      distinctId: distinctId.toString('latin1'),
      sessionId: sessionId.toString('latin1'),
      timestamp: time.readDoubleLE(),
      frame,
    }
  }

  /** Reads a length in LEB128, and that many bytes. */
  #text(): Buffer | null {
    let length = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = this.#bytes[this.#at]
      if (byte === undefined) return this.#wait(1)
      this.#at++
      length += (byte & 127) * scale
      if (byte < 128) return this.#skip(length)
    }
  }

  #skip(length: number): Buffer | null {
    const end = this.#at + length
    if (end > this.#bytes.length) return this.#wait(length)
    const bytes = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return bytes
  }

  #wait(length: number): null {
    this.#needed = this.#at + length
    return null
  }
}
