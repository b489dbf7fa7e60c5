import { Duplex, pipeline } from 'node:stream'
import * as zlib from 'node:zlib'
import type { FastifyInstance, preParsingHookHandler } from 'fastify'
import { Decompress } from 'fzstd'
import { ApiError } from '../../contract/errors.js'

/** Newer versions of Node decompress zstd themselves; the types are from Node 20. */
const IS_IN_NODE = typeof (zlib as { createZstdDecompress?: unknown }).createZstdDecompress === 'function'

/** Largest window of a body in bytes, as RFC 9659 allows it. */
const MAX_WINDOW = 8 * 1024 * 1024
/** Bytes of the windows of all bodies that are being decompressed. */
const ALL_WINDOWS = 256 * 1024 * 1024
/**
 * fzstd moves the whole window for each block: with the largest window, that is 64 times the bytes of a full block of
 * 128 KiB. Many tiny blocks would cost thousands of times as much, but no encoder writes them.
 */
const MAX_MOVED_PER_BYTE = 128
const FREE_MOVES = 4

const MAGIC = 0xfd2fb528
const BLOCK_HEADER = 3
const RUN = 1
const RESERVED = 3
const MAX_BLOCK = 128 * 1024
const CHECKSUM = 4
const NOTHING = Buffer.alloc(0)

let windows = 0

/**
 * Accepts bodies that are compressed with zstd if Node cannot decompress it. Call it once the plugin for the other
 * encodings is loaded: it wraps that plugin's hook, the first one of a route, so that requests need no additional hook.
 */
export function acceptZstd(app: FastifyInstance): void {
  if (IS_IN_NODE) return
  app.addHook('onRoute', (route) => {
    const [others, ...more] = [route.preParsing ?? []].flat() as preParsingHookHandler[]
    if (others) route.preParsing = [inflateZstdOr(others), ...more]
  })
}

function inflateZstdOr(others: preParsingHookHandler): preParsingHookHandler {
  return function inflate(request, reply, payload, done) {
    if (request.raw.headers['content-encoding'] !== 'zstd') return others.call(this, request, reply, payload, done)
    const inflating = new ZstdInflate()
    reply.raw.once('close', () => inflating.destroy())
    // The reader of the stream gets the errors.
    pipeline(payload, inflating, () => undefined)
    inflating.pause()
    done(null, inflating)
  }
}

/** The state of the frame parser. */
type FramePart = 'header' | 'block' | 'checksum' | 'end'

/**
 * Decompresses one frame of zstd (RFC 8878), block by block, as fast as its reader takes them. fzstd gets one block at
 * a time, because it decompresses everything it is given immediately, and four bytes can become 128 KiB.
 */
export class ZstdInflate extends Duplex {
  /** compressed bytes received, named like in the plugin for the other encodings */
  receivedEncodedLength = 0
  readonly #decompress: Decompress
  #place: FramePart = 'header'
  #given: Buffer = NOTHING
  #window = 0
  #hasChecksum = false
  #moved = 0
  #bytes = 0
  #isFull = false
  /** asks for more of the body */
  #next: (() => void) | null = null

  constructor() {
    super({ readableHighWaterMark: MAX_BLOCK })
    this.#decompress = new Decompress((block) => this.#emit(block))
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.receivedEncodedLength += chunk.length
    this.#given = this.#given.length === 0 ? chunk : Buffer.concat([this.#given, chunk])
    this.#next = done
    this.#advance()
  }

  override _read(): void {
    this.#isFull = false
    this.#advance()
  }

  override _final(done: (error?: Error | null) => void): void {
    try {
      if (this.#place !== 'end' || this.#given.length > 0) throw invalid()
      // fzstd waits for 18 bytes, and a frame may have fewer.
      this.#decompress.push(NOTHING, true)
      this.push(null)
      done()
    } catch {
      done(invalid())
    }
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    windows -= this.#window
    this.#window = 0
    this.#given = NOTHING
    done(error)
  }

  #advance(): void {
    try {
      while (!this.#isFull && this.#next && this.#step());
    } catch (error) {
      this.destroy(error instanceof ApiError ? error : invalid())
      return
    }
    if (this.#isFull || !this.#next) return
    const next = this.#next
    this.#next = null
    next()
  }

  /** @returns false if more of the body is needed */
  #step(): boolean {
    switch (this.#place) {
      case 'header':
        return this.#readHeader()
      case 'block':
        return this.#readBlock()
      case 'checksum':
        if (this.#given.length < CHECKSUM) return false
        this.#push(CHECKSUM)
        this.#place = 'end'
        return true
      case 'end':
        // The trailing data may be another event.
        if (this.#given.length > 0) throw invalid()
        return false
      default:
        return this.#place satisfies never
    }
  }

  #readHeader(): boolean {
    const given = this.#given
    if (given.length < 5) return false
    if (given.readUInt32LE() !== MAGIC) throw invalid()
    const descriptor = given[4] ?? 0
    const isSingle = (descriptor & 0x20) !== 0
    const windowBytes = isSingle ? 0 : 1
    const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0
    const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
    const length = 5 + windowBytes + dictionaryBytes + sizeBytes
    if (given.length < length) return false
    const window = isSingle ? sizeIn(given, length - sizeBytes, sizeBytes) : windowIn(given[5] ?? 0)
    if (dictionaryBytes > 0 || window > MAX_WINDOW) throw invalid()
    if (windows + window > ALL_WINDOWS) {
      throw new ApiError('overloaded', 'Too many bodies with zstd are being read. Try again in a moment.', {
        limit: 'body_memory',
      })
    }
    windows += window
    this.#window = window
    this.#hasChecksum = (descriptor & 4) !== 0
    this.#push(length)
    this.#place = 'block'
    return true
  }

  #readBlock(): boolean {
    const given = this.#given
    if (given.length < BLOCK_HEADER) return false
    const header = given.readUIntLE(0, BLOCK_HEADER)
    const type = (header >> 1) & 3
    const size = header >> 3
    if (type === RESERVED || size > MAX_BLOCK) throw invalid()
    const length = BLOCK_HEADER + (type === RUN ? 1 : size)
    if (given.length < length) return false
    this.#moved += this.#window
    if (this.#moved > MAX_MOVED_PER_BYTE * this.#bytes + FREE_MOVES * this.#window) throw invalid()
    const isLast = (header & 1) === 1
    this.#push(length)
    if (isLast) this.#place = this.#hasChecksum ? 'checksum' : 'end'
    return true
  }

  #push(length: number): void {
    this.#decompress.push(this.#given.subarray(0, length))
    this.#given = this.#given.subarray(length)
  }

  #emit(block: Uint8Array): void {
    if (block.length === 0) return
    this.#bytes += block.length
    // A copy, because fzstd may reuse the memory.
    if (!this.push(Buffer.from(block))) this.#isFull = true
  }
}

/** The window size in bytes that a descriptor encodes. */
function windowIn(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3))
  return base + (base / 8) * (descriptor & 7)
}

function sizeIn(bytes: Buffer, at: number, length: number): number {
  if (length === 8) return Number(bytes.readBigUInt64LE(at))
  return bytes.readUIntLE(at, length) + (length === 2 ? 256 : 0)
}

/** The same message as from the plugin for the other encodings. */
function invalid(): Error {
  return Object.assign(new Error('The body is not a zstd frame.'), { code: 'FST_CP_ERR_INVALID_CONTENT' })
}
