import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import { parseError } from '@clickhouse/client'
import { MAX_ERROR_BYTES } from './errors.js'

/**
 * Guards an answer that is sent while its query still runs, which may fail when a part of the rows is on its way. Then
 * ClickHouse writes the error behind them, and breaks the transfer. The error begins with a line of its own and a tag
 * that is drawn at random for each answer, so no text of a user can look like it. It breaks this stream too, even where
 * something on the way has completed the transfer, and nothing of its text passes.
 *
 * @param tag the answer's X-ClickHouse-Exception-Tag
 * @param wrap makes the stream's error of a ClickHouseError
 * @returns the rows; it ends only where the answer was complete, else it fails
 */
export function untilException(answer: Readable, tag: string, wrap: (error: Error) => Error): Readable {
  return pipeline(answer, new ExceptionGuard(tag, wrap), () => undefined)
}

class ExceptionGuard extends Transform {
  readonly #marker: Buffer
  readonly #wrap: (error: Error) => Error
  /** the end of what has passed, in which a marker may begin */
  #passed: Buffer = Buffer.alloc(0)
  /** what came from the marker on, or from a little before it */
  #exception: Buffer | null = null

  constructor(tag: string, wrap: (error: Error) => Error) {
    super()
    this.#wrap = wrap
    this.#marker = Buffer.from(`__exception__\r\n${tag}\r\n`)
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#exception === null) this.#pass(chunk)
    else if (this.#exception.length < MAX_ERROR_BYTES) this.#exception = Buffer.concat([this.#exception, chunk])
    done()
  }

  #pass(chunk: Buffer): void {
    const most = this.#marker.length - 1
    const seam = Buffer.concat([this.#passed, chunk.subarray(0, most)])
    if (seam.includes(this.#marker)) {
      this.#exception = Buffer.concat([this.#passed, chunk])
      return
    }
    const at = chunk.indexOf(this.#marker)
    this.push(at < 0 ? chunk : chunk.subarray(0, at))
    if (at >= 0) this.#exception = chunk.subarray(at)
    else this.#passed = (chunk.length < most ? seam : chunk).subarray(-most)
  }

  override _flush(done: TransformCallback): void {
    done(this.#error())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    done(error && (this.#error() ?? error))
  }

  #error(): Error | null {
    if (this.#exception === null) return null
    // What is before the marker is the end of a row.
    return this.#wrap(parseError(this.#exception.toString('utf8', this.#exception.indexOf(this.#marker))))
  }
}
