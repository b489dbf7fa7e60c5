import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { addAbortSignal, pipeline, Readable, type Transform } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { createBrotliDecompress, createGunzip } from 'node:zlib'
import { LINE_FEED } from '../../json/bytes.js'

const CHUNK_BYTES = 256 * 1024
/** Size of a read buffer, which is reused. */
const BLOCK_BYTES = 512 * 1024
/** Compressed bytes passed to fzstd at a time; they can expand to many more. */
const ZSTD_PIECE_BYTES = 16 * 1024

/** How much of the text is inspected before anything is sent. */
const HEAD_BYTES = 1024 * 1024

/** If a stream pauses for this long, the data so far is inspected, provided that it contains a row. */
const PAUSE_MS = 500

/** Matches a hidden file in an archive. */
const HIDDEN = /(^|\/)\.(?!\/)/
/** Matches a table or JSON in an archive. */
const TABLE = /\.[ct]sv(?:\.(?:gz|gzip|zst|zstd|br))?$/i
const JSON_FILE = /\.json(?:\.(?:gz|gzip|zst|zstd|br))?$/i
/** How much of a table is compared with the beginning of the first one. */
const HEADER_BYTES = 16 * 1024
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

/** The beginning of a text. */
export interface Head {
  /** at most HEAD_BYTES */
  bytes: Buffer
  /** whether this is all of the text */
  isWhole: boolean
  /** why no part of the text should be stored */
  failure?: ArchiveError
}

/** Text to import: a file, which can be read again from any offset, or a stream. */
export interface Input {
  /** what messages call it */
  name: string
  /** of the file on disk, in bytes; null for a stream */
  size: number | null
  /** bytes read so far, counted as on disk */
  readonly bytesRead: number
  /** Returns the beginning of its text, which `read` includes again. */
  head(): Promise<Head>
  /**
   * Reads its text, decompressed, without a byte order mark.
   * @param offset bytes of this text to skip; a stream can only be read once, from 0
   * @param mayReuseChunks whether a chunk may be overwritten when the next one is requested, which avoids most garbage
   *   collection
   */
  read(offset: number, mayReuseChunks?: boolean): AsyncIterable<Buffer>
}

type Chunks = AsyncIterable<Buffer>

/** The compressed data cannot be read further. */
export class CompressedDataError extends Error {
  override readonly name = 'CompressedDataError'
  /** whether the data is cut short, as in a partly copied file; otherwise it is damaged */
  readonly isTruncated: boolean

  constructor(input: string, isTruncated: boolean, cause: Error) {
    const what = isTruncated
      ? 'ends in the middle of its compressed data'
      : `cannot be decompressed further: it is damaged or of an unsupported kind (${cause.message})`
    super(`${input} ${what}.`, { cause })
    this.isTruncated = isTruncated
  }
}

/** The files of an archive cannot be read as one text. */
class ArchiveError extends Error {
  override readonly name = 'ArchiveError'

  constructor(path: string, what: string) {
    super(`${path} has ${what}. Unpack it into a folder, and import the files or the folder.`)
  }
}

/** @throws Error if the file cannot be read */
export async function openFile(path: string): Promise<Input> {
  const info = await stat(path)
  if (!info.isFile()) throw new Error(`${path} is not a file. To import from a pipe, write to standard input.`)
  const start = await firstBytes(path)
  const compression = detectCompression(start, path)
  const isPlain = compression === null
  const mark = isPlain && start.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0
  const input = {
    name: path,
    size: info.size,
    bytesRead: 0,
    head: async () => {
      const failure = compression === 'zip' ? await checkArchive(path) : undefined
      return { ...(await readHead(input.read(0))), ...(failure && { failure }) }
    },
    async *read(offset: number, mayReuseChunks = false): Chunks {
      const counted = (chunk: Buffer): Buffer => {
        input.bytesRead += chunk.length
        return chunk
      }
      if (isPlain) {
        input.bytesRead = mark + offset
        yield* mayReuseChunks ? blocks(path, mark + offset, counted) : file(path, mark + offset, counted)
      } else {
        input.bytesRead = 0
        yield* skip(withInputName(text(path, start, counted), path), offset)
      }
    },
  }
  return input
}

/** @param signal destroys the stream immediately; its reader gets an error */
export function openStream(stream: Readable, signal?: AbortSignal): Input {
  // Without a listener, an error would end the process. The reader gets it too, even if it starts reading later.
  stream.on('error', () => undefined)
  if (signal) addAbortSignal(signal, stream)
  let opened: ReturnType<typeof peek> | undefined
  const open = () => {
    opened ??= peek(skip(withInputName(decompress(counted(), ''), input.name), 0), HEAD_BYTES, hasRow)
    return opened
  }
  const input = {
    name: 'standard input',
    size: null,
    bytesRead: 0,
    head: async () => (await open()).head,
    async *read(): Chunks {
      yield* (await open()).all
    },
  }
  async function* counted(): Chunks {
    for await (const chunk of stream as Chunks) {
      input.bytesRead += chunk.length
      yield chunk
    }
  }
  return input
}

async function* file(path: string, start: number, counted: (chunk: Buffer) => Buffer): Chunks {
  for await (const chunk of createReadStream(path, { start, highWaterMark: CHUNK_BYTES })) yield counted(chunk)
}

/** Reads into one of two blocks while the consumer uses the other. */
async function* blocks(path: string, start: number, counted: (chunk: Buffer) => Buffer): Chunks {
  const handle = await open(path)
  const pair = [Buffer.allocUnsafeSlow(BLOCK_BYTES), Buffer.allocUnsafeSlow(BLOCK_BYTES)] as const
  let position = start
  let reading = handle.read(pair[0], 0, BLOCK_BYTES, position)
  try {
    for (let i = 1; ; i ^= 1) {
      const { bytesRead, buffer } = await reading
      if (bytesRead === 0) return
      position += bytesRead
      reading = handle.read(pair[i === 1 ? 1 : 0], 0, BLOCK_BYTES, position)
      // The request for the next block gets the failure.
      reading.catch(() => undefined)
      yield counted(buffer.subarray(0, bytesRead))
    }
  } finally {
    await reading.catch(() => undefined)
    await handle.close()
  }
}

async function* text(path: string, start: Buffer, counted: (chunk: Buffer) => Buffer): Chunks {
  if (detectCompression(start, path) !== 'zip') return yield* decompress(file(path, 0, counted), path)
  const { unzip } = await import('./zip.js')
  for await (const { name, content } of unzip(path)) {
    // Skipped as in folders. macOS adds such files to its archives.
    if (HIDDEN.test(name)) continue
    yield* skip(decompress(map(content, counted), name), 0)
    // The last line of a file may have no line end.
    yield Buffer.from('\n')
  }
}

/**
 * Checks that the files of an archive can be read as one text. Rows of a table with other columns would get the names
 * of the first one, and nothing may follow the end of a JSON array.
 * @returns the fault if they cannot
 */
async function checkArchive(path: string): Promise<ArchiveError | undefined> {
  const { unzip } = await import('./zip.js')
  let first: { name: string; header: string } | undefined
  let files = 0
  let array: string | undefined
  for await (const { name, content } of unzip(path)) {
    if (HIDDEN.test(name)) continue
    files++
    const isTable = TABLE.test(name)
    if (!isTable && !JSON_FILE.test(name)) continue
    // A damaged file ends the import when it is read.
    const head = await readHead(skip(decompress(content, name), 0), HEADER_BYTES).catch(() => null)
    const text = head?.bytes.toString().trimStart() ?? ''
    if (!isTable && text.startsWith('[')) array ??= name
    const [header = ''] = isTable ? text.split(/\r?\n/, 1) : []
    if (header === '') continue
    first ??= { name, header }
    if (header !== first.header) {
      return new ArchiveError(path, `tables with different columns, such as ${first.name} and ${name}`)
    }
  }
  if (array === undefined || files === 1) return undefined
  return new ArchiveError(path, `several files, and ${array} is a JSON array`)
}

async function* map(chunks: Chunks, change: (chunk: Buffer) => Buffer): Chunks {
  for await (const chunk of chunks) yield change(chunk)
}

async function firstBytes(path: string): Promise<Buffer> {
  const handle = await open(path)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** Detects compression by its magic bytes, which no text begins with. Brotli has none, so the file name decides. */
function detectCompression(start: Buffer, name: string): 'gzip' | 'zstd' | 'zip' | 'brotli' | null {
  if (/\.br$/i.test(name)) return 'brotli'
  if (start.length >= 2 && start.readUInt16BE() === 0x1f8b) return 'gzip'
  if (start.length < 4) return null
  const magic = start.readUInt32LE()
  // Some compressors, such as pzstd, begin with a skippable frame (RFC 8878, 3.1.2).
  if (magic === 0xfd2fb528 || magic >>> 4 === 0x184d2a5) return 'zstd'
  return magic === 0x04034b50 ? 'zip' : null
}

/** @param name of the file; empty if there is none */
async function* decompress(chunks: Chunks, name: string): Chunks {
  const { head, all } = await peek(chunks)
  switch (detectCompression(head.bytes, name)) {
    case null:
      return yield* all
    case 'gzip':
      return yield* inflate(all, createGunzip({ chunkSize: CHUNK_BYTES }))
    case 'brotli':
      return yield* unbrotli(all)
    case 'zstd':
      return yield* unzstd(all)
    case 'zip':
      throw new Error(
        name === ''
          ? 'A zip archive cannot be read from a stream. Save it as a file first.'
          : `${name} is a zip archive in a zip archive. Unpack the outer one into a folder, and import that folder.`,
      )
  }
}

interface Peeked {
  head: Head
  all: Chunks
}

/**
 * @param bytes desired length of the beginning
 * @param isEnough whether the bytes so far are enough if no more arrive for a while
 * @returns the beginning, and everything from there on. If reading fails, the beginning is what was read before, and
 * the reader of everything gets the error.
 */
async function peek(chunks: Chunks, bytes = 4, isEnough?: (first: Buffer[]) => boolean): Promise<Peeked> {
  const iterator = chunks[Symbol.asyncIterator]()
  const first: Buffer[] = []
  let [length, isWhole, hasEnough] = [0, false, false]
  let failure: { error: unknown } | null = null
  /** the next chunk, if it had not arrived when the beginning was taken */
  let late: Promise<IteratorResult<Buffer>> | null = null
  while (length < bytes && !isWhole && !failure) {
    const coming = iterator.next()
    hasEnough ||= isEnough?.(first) ?? false
    const asked = hasEnough ? Promise.race([coming, wait(PAUSE_MS, null, { ref: false })]) : coming
    const next = await asked.catch((error: unknown) => {
      failure = { error }
      return undefined
    })
    if (next === null) {
      late = coming
      // The reader of everything gets the failure.
      late.catch(() => undefined)
    }
    if (!next) break
    if (next.done) isWhole = true
    else length += first.push(next.value) && next.value.length
  }
  async function* all(): Chunks {
    try {
      while (first.length > 0) yield first.shift() as Buffer
      if (failure) throw failure.error
      const next = await late
      if (next && !next.done) yield next.value
      if (!isWhole && !next?.done) yield* { [Symbol.asyncIterator]: () => iterator }
    } finally {
      await iterator.return?.()
    }
  }
  return { head: { bytes: joinChunks(first, bytes), isWhole: isWhole && length <= bytes }, all: all() }
}

/** Whether there is a complete row: one line, or for CSV two, because the first is the header. */
function hasRow(first: Buffer[]): boolean {
  const bytes = Buffer.concat(first)
  const lineEnd = bytes.indexOf(LINE_FEED)
  const isCsv = !/^\s*[{[]/.test(bytes.toString('latin1', 0, 100))
  return lineEnd !== -1 && (!isCsv || bytes.includes(LINE_FEED, lineEnd + 1))
}

/** Like `peek`, for only the head. */
async function readHead(chunks: Chunks, bytes = HEAD_BYTES): Promise<Head> {
  const first: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of chunks) {
      first.push(chunk)
      length += chunk.length
      if (length > bytes) break
    }
  } catch (error) {
    // The reader of the whole input will get the error, too.
    if (length === 0) throw error
    return { bytes: joinChunks(first, bytes), isWhole: false }
  }
  return { bytes: joinChunks(first, bytes), isWhole: length <= bytes }
}

/** Copies, because readers may write into the chunks that they get. */
function joinChunks(chunks: readonly Buffer[], bytes: number): Buffer {
  return Buffer.concat(chunks.map((chunk, i) => (i === 0 ? chunk.subarray(0, bytes) : chunk))).subarray(0, bytes)
}

async function* inflate(chunks: Chunks, inflating: Transform): Chunks {
  // The reader gets the error, so the callback has nothing to do.
  yield* pipeline(Readable.from(chunks), inflating, () => undefined) as unknown as Chunks
}

/** Decompresses Brotli. Node ignores what follows the end of the first stream, which may be more events. */
async function* unbrotli(chunks: Chunks): Chunks {
  const inflating = createBrotliDecompress({ chunkSize: CHUNK_BYTES })
  let received = 0
  const counted = map(chunks, (chunk) => {
    received += chunk.length
    return chunk
  })
  yield* inflate(counted, inflating)
  if (inflating.bytesWritten === received) return
  throw Object.assign(new Error('more data follows its end'), { code: 'ERR_BROTLI_TRAILING_DATA' })
}

/**
 * Decompresses zstd. Node's own zstd treats truncated data as complete, and may skip all frames but the first
 * (https://github.com/nodejs/node/issues/64592, https://github.com/nodejs/node/pull/64748). Checksums are not
 * verified; `zstd --test` does that.
 */
async function* unzstd(chunks: Chunks): Chunks {
  const { Decompress, ZstdErrorCode } = await import('fzstd')
  const out: Buffer[] = []
  const decompress = new Decompress((piece) => out.push(Buffer.from(piece)))
  const push = (chunk: Uint8Array, isLast = false) => {
    try {
      decompress.push(chunk, isLast)
    } catch (error) {
      // For some damaged data it throws a different error, such as a RangeError without a code.
      throw Object.assign(error as Error, { code: (error as { code?: number }).code ?? ZstdErrorCode.InvalidData })
    }
  }
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += ZSTD_PIECE_BYTES) {
      push(chunk.subarray(at, at + ZSTD_PIECE_BYTES))
      yield* out.splice(0)
    }
  }
  push(new Uint8Array(0), true)
  yield* out
}

/** Turns errors of zlib, Brotli and fzstd about bad data into one that names the input. */
async function* withInputName(chunks: Chunks, input: string): Chunks {
  try {
    yield* chunks
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    const isOfData =
      typeof code === 'number' || (typeof code === 'string' && /^(Z_|ERR__ERROR_|ERR_BROTLI_)/.test(code))
    if (!isOfData) throw error
    const { ZstdErrorCode } = await import('fzstd')
    throw new CompressedDataError(input, code === 'Z_BUF_ERROR' || code === ZstdErrorCode.UnexpectedEOF, error as Error)
  }
}

/** Skips a byte order mark, and `offset` bytes after it. */
async function* skip(chunks: Chunks, offset: number): Chunks {
  const { head, all } = await peek(chunks)
  let left = offset + (head.bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0)
  for await (const chunk of all) {
    if (left < chunk.length) yield left === 0 ? chunk : chunk.subarray(left)
    left = Math.max(left - chunk.length, 0)
  }
}
