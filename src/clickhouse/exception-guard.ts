import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import { parseError } from '@clickhouse/client'
import { MAX_ERROR_BYTES, toStoreError } from './errors.js'

const CARRIAGE_RETURN = 0x0d

/**
 * Guards a result that is streamed while its query is still running. If the query fails after some rows were sent,
 * ClickHouse appends the error to them and breaks the transfer. The error starts with a marker line and a tag that is
 * random for each response, so no data can look like it. This stream then fails, too, even if a proxy has completed the
 * transfer, and passes on no part of the error.
 *
 * @param tag the response's X-ClickHouse-Exception-Tag
 * @returns the rows; it ends only if the result is complete, and fails otherwise
 */
export function untilException(answer: Readable, tag: string): Readable {
  return pipeline(answer, new ExceptionGuard(tag), () => undefined)
}

class ExceptionGuard extends Transform {
  readonly #marker: Buffer
  /** the last bytes that were passed on, which may contain the start of a marker */
  #passed: Buffer = Buffer.alloc(0)
  /** the bytes from the marker on, or from just before it */
  #exception: Buffer | null = null

  constructor(tag: string) {
    super()
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
    // Carriage returns are rare, and finding one byte takes a fifteenth of the time.
    const at = chunk.includes(CARRIAGE_RETURN) ? chunk.indexOf(this.#marker) : -1
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
    // Drop the end of the row before the marker.
    return toStoreError(parseError(this.#exception.toString('utf8', this.#exception.indexOf(this.#marker))))
  }
}
