import type { IncomingMessage } from 'node:http'
import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import { MAX_ERROR_BYTES, readError } from './errors.js'

const CARRIAGE_RETURN = 0x0d
/** The header of a response with the tag of an error in it. */
export const TAG_HEADER = 'x-clickhouse-exception-tag'

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

/**
 * All bytes of a response.
 * @throws StoreError if the query failed after some of them were sent, or Node's error if the transfer broke
 */
export async function readBytes(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let broken: unknown
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk)
  } catch (error) {
    broken = error
  }
  const bytes = Buffer.concat(chunks)
  const tag = answer.headers[TAG_HEADER]
  const exception = typeof tag === 'string' ? bytes.indexOf(toMarker(tag)) : -1
  if (exception >= 0) throw readError(bytes.toString('utf8', exception))
  if (broken) throw broken
  return bytes
}

function toMarker(tag: string): Buffer {
  return Buffer.from(`__exception__\r\n${tag}\r\n`)
}

class ExceptionGuard extends Transform {
  readonly #marker: Buffer
  /** the last bytes that were passed on, which may contain the start of a marker */
  #passed: Buffer = Buffer.alloc(0)
  /** the bytes from the marker on, or from just before it */
  #exception: Buffer | null = null

  constructor(tag: string) {
    super()
    this.#marker = toMarker(tag)
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
    return readError(this.#exception.toString('utf8', this.#exception.indexOf(this.#marker)))
  }
}
