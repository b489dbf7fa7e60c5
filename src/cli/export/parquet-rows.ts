import type { FileHandle } from 'node:fs/promises'

const MAGIC = 'PAR1'
/** The length of the footer in 4 bytes, and the magic. */
const TAIL_BYTES = 8
/** Enough for the schema of the events' columns, which precedes the number of rows. */
const MAX_FOOTER_BYTES = 64 * 1024
/**
 * Field id of `num_rows` in FileMetaData, see
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */
const NUM_ROWS = 3

/** Types of the Thrift compact protocol. */
const [TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]

/**
 * Reads the number of rows from the footer of a Parquet file.
 * @param size size of the file in bytes
 * @throws Error if it is not a complete Parquet file
 */
export async function rowsInParquet(file: FileHandle, size: number): Promise<number> {
  const tail = await readAt(file, Math.max(size - TAIL_BYTES, 0), TAIL_BYTES)
  const footerBytes = tail.length === TAIL_BYTES ? tail.readUInt32LE(0) : 0
  const start = size - TAIL_BYTES - footerBytes
  if (tail.toString('latin1', 4) !== MAGIC || start < MAGIC.length) throw damaged()
  return numRows(await readAt(file, start, Math.min(footerBytes, MAX_FOOTER_BYTES)))
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.subarray(0, bytesRead)
}

function numRows(footer: Buffer): number {
  const reader = new CompactReader(footer)
  for (let field = reader.field(0); field !== null; field = reader.field(field.id)) {
    if (field.id === NUM_ROWS) return reader.integer()
    reader.skip(field.type)
  }
  throw damaged()
}

/** Reads the subset of the Thrift compact protocol that a footer needs. */
class CompactReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /**
   * Reads the next field of a struct; null at its end.
   * @param before id of the previous field, or 0
   */
  field(before: number): { id: number; type: number } | null {
    const head = this.#byte()
    if (head === 0) return null
    const step = head >> 4
    return { id: step === 0 ? this.integer() : before + step, type: head & 0x0f }
  }

  /** Reads a zigzag integer. */
  integer(): number {
    const value = this.#varint()
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  skip(type: number): void {
    if (type === TRUE || type === FALSE) return
    if (type === BYTE) this.#pass(1)
    else if (type === I16 || type === I32 || type === I64) this.#varint()
    else if (type === DOUBLE) this.#pass(8)
    else if (type === BINARY) this.#pass(this.#varint())
    else if (type === LIST || type === SET) this.#skipList()
    else if (type === STRUCT) {
      for (let field = this.field(0); field !== null; field = this.field(field.id)) this.skip(field.type)
    } else throw damaged()
  }

  #skipList(): void {
    const head = this.#byte()
    const count = head >> 4 === 0x0f ? this.#varint() : head >> 4
    const type = head & 0x0f
    for (let i = 0; i < count; i++) {
      // In a list, a boolean takes a byte; as a field, its value is part of the type.
      if (type === TRUE || type === FALSE) this.#pass(1)
      else this.skip(type)
    }
  }

  /** Skips bytes. Throws if they are beyond the end, because a damaged length could otherwise take forever. */
  #pass(bytes: number): void {
    this.#at += bytes
    if (this.#at > this.#bytes.length) throw damaged()
  }

  #varint(): number {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = this.#byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw damaged()
    return byte
  }
}

function damaged(): Error {
  return new Error('The service sent a file that is not a whole Parquet file. Rerun the command to resume.')
}
