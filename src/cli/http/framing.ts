import type { FetchHeaders } from '../../client/connection.js'

const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
/** Far longer than a chunk size with extensions, or a trailer field, needs. */
const MAX_LINE_BYTES = 16 * 1024

/** Separates a body from the rest of the bytes on a connection. */
export interface Framing {
  /** whether the body is complete */
  readonly isOver: boolean
  /**
   * Moves the bytes of the body to `start`, without the framing.
   * @returns the offset after them
   * @throws Error if it is not HTTP
   */
  take(bytes: Buffer, start: number, end: number): number
  /** @throws Error if the body is not complete when the connection ends */
  end(): void
}

/** Chooses the framing of a response by its headers (RFC 9112, 6.3). */
export function chooseFraming(method: string, status: number, headers: FetchHeaders): Framing {
  if (method === 'HEAD' || status === 204 || status === 304) return new LengthFraming(0)
  const encoding = headers.get('transfer-encoding')
  if (encoding?.toLowerCase() === 'chunked') return new ChunkedFraming()
  if (encoding !== null) throw notHttp(`the transfer encoding ${encoding}`)
  const length = headers.get('content-length')
  if (length === null) return new LengthFraming(Number.POSITIVE_INFINITY)
  if (!/^\d{1,15}$/.test(length)) throw notHttp(`the length ${length}`)
  return new LengthFraming(Number(length))
}

/** A body of known length. An infinite length means that it ends with the connection. */
class LengthFraming implements Framing {
  #left: number

  constructor(length: number) {
    this.#left = length
  }

  get isOver(): boolean {
    return this.#left === 0
  }

  take(_bytes: Buffer, start: number, end: number): number {
    const taken = Math.min(end - start, this.#left)
    this.#left -= taken
    return start + taken
  }

  end(): void {
    if (Number.isFinite(this.#left) && this.#left > 0)
      throw new Error(`${this.#left} bytes of the response are missing`)
    this.#left = 0
  }
}

/** A body in chunks, each after a line with its length (RFC 9112, 7.1). */
class ChunkedFraming implements Framing {
  /** what is expected next */
  #state: 'length' | 'bytes' | 'end of bytes' | 'trailer' | 'over' = 'length'
  /** bytes left of the chunk */
  #left = 0
  /** a line whose end has not arrived yet */
  #line = ''

  get isOver(): boolean {
    return this.#state === 'over'
  }

  take(bytes: Buffer, start: number, end: number): number {
    let to = start
    for (let at = start; at < end && !this.isOver; ) {
      if (this.#state === 'bytes') {
        const taken = Math.min(this.#left, end - at)
        if (to !== at) bytes.copyWithin(to, at, at + taken)
        to += taken
        at += taken
        this.#left -= taken
        if (this.#left === 0) this.#state = 'end of bytes'
      } else {
        at = this.#readLine(bytes, at, end)
      }
    }
    return to
  }

  end(): void {
    if (!this.isOver) throw new Error('the response broke off')
  }

  /**
   * Reads a line, or as much of it as has arrived.
   * @returns the offset after it
   */
  #readLine(bytes: Buffer, start: number, end: number): number {
    const found = bytes.indexOf(LINE_FEED, start)
    const lineEnd = found === -1 || found >= end ? end : found + 1
    this.#line += bytes.toString('latin1', start, lineEnd)
    if (this.#line.length > MAX_LINE_BYTES) throw notHttp('a line that is too long')
    if (this.#line.charCodeAt(this.#line.length - 1) === LINE_FEED) {
      const isShort = this.#line.charCodeAt(this.#line.length - 2) !== CARRIAGE_RETURN
      this.#take(this.#line.slice(0, isShort ? -1 : -2))
      this.#line = ''
    }
    return lineEnd
  }

  #take(line: string): void {
    if (this.#state === 'length') {
      const [, hexadecimal] = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i.exec(line) ?? []
      if (hexadecimal === undefined) throw notHttp(`a chunk with the length ${JSON.stringify(line.slice(0, 20))}`)
      this.#left = Number.parseInt(hexadecimal, 16)
      this.#state = this.#left === 0 ? 'trailer' : 'bytes'
    } else if (this.#state === 'end of bytes') {
      if (line !== '') throw notHttp('a chunk that is longer than it says')
      this.#state = 'length'
    } else if (line === '') {
      this.#state = 'over'
    }
  }
}

/** Makes an error with the code that Node's own HTTP parser uses. */
export function notHttp(what: string): Error {
  return Object.assign(new Error(`the response has ${what}`), { code: 'HPE_INVALID_CONSTANT' })
}
