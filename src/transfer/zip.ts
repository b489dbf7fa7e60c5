import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createInflateRaw } from 'node:zlib'

/**
 * Reads zip archives as APPNOTE 6.3.9 (PKWARE) describes them: stored and deflated entries, zip64 included; archives that
 * are encrypted or go over several files are refused.
 */

const END_SIGNATURE = 0x06054b50
const END_BYTES = 22
const MAX_COMMENT_BYTES = 0xffff
const END_64_SIGNATURE = 0x06064b50
const LOCATOR_64_SIGNATURE = 0x07064b50
const LOCATOR_64_BYTES = 20
const ENTRY_SIGNATURE = 0x02014b50
const ENTRY_BYTES = 46
const LOCAL_BYTES = 30
const ZIP64_FIELD = 0x0001
const IN_ZIP64 = 0xffffffff
const MAX_DIRECTORY_BYTES = 64 * 1024 * 1024

interface Entry {
  name: string
  isEncrypted: boolean
  /** 0 stored, 8 deflated */
  method: number
  compressedSize: number
  /** of its local header */
  offset: number
}

/**
 * The content of each file in the archive, in the order of its directory; each is to be read before the next.
 * @throws Error where the archive is damaged or of a kind that is not read
 */
export async function* unzip(path: string): AsyncGenerator<AsyncIterable<Buffer>> {
  const handle = await open(path)
  try {
    for (const entry of await readDirectory(handle)) {
      if (!entry.name.endsWith('/')) yield content(handle, entry)
    }
  } finally {
    await handle.close()
  }
}

async function readDirectory(handle: FileHandle): Promise<Entry[]> {
  const { size } = await handle.stat()
  const tail = await bytes(handle, Math.max(size - END_BYTES - MAX_COMMENT_BYTES, 0), size)
  let end = tail.length - END_BYTES
  while (end >= 0 && tail.readUInt32LE(end) !== END_SIGNATURE) end--
  if (end < 0) throw damaged('its directory is missing; it may be cut off')
  let length = tail.readUInt32LE(end + 12)
  let offset = tail.readUInt32LE(end + 16)
  const locator = end - LOCATOR_64_BYTES
  if (locator >= 0 && tail.readUInt32LE(locator) === LOCATOR_64_SIGNATURE) {
    const at = toNumber(tail.readBigUInt64LE(locator + 8))
    const end64 = await bytes(handle, at, at + 56)
    if (end64.readUInt32LE() !== END_64_SIGNATURE) throw damaged('its zip64 directory is missing')
    length = toNumber(end64.readBigUInt64LE(40))
    offset = toNumber(end64.readBigUInt64LE(48))
  }
  if (length > MAX_DIRECTORY_BYTES) throw damaged('its directory is too large')
  const directory = await bytes(handle, offset, offset + length)
  const entries: Entry[] = []
  for (let at = 0; at + ENTRY_BYTES <= length; ) {
    if (directory.readUInt32LE(at) !== ENTRY_SIGNATURE) throw damaged('its directory cannot be read')
    const nameEnd = at + ENTRY_BYTES + directory.readUInt16LE(at + 28)
    const extraEnd = nameEnd + directory.readUInt16LE(at + 30)
    entries.push({
      name: directory.toString('utf8', at + ENTRY_BYTES, nameEnd),
      isEncrypted: (directory.readUInt16LE(at + 8) & 1) !== 0,
      method: directory.readUInt16LE(at + 10),
      ...sizes(directory.subarray(at, at + ENTRY_BYTES), directory.subarray(nameEnd, extraEnd)),
    })
    at = extraEnd + directory.readUInt16LE(at + 32)
  }
  return entries
}

/** Where a number does not fit into its 32 bits, the zip64 field holds it, in a fixed order. */
function sizes(entry: Buffer, extra: Buffer): Pick<Entry, 'compressedSize' | 'offset'> {
  let wide: Buffer = Buffer.alloc(0)
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) === ZIP64_FIELD) wide = extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2))
  }
  let at = 0
  const [, compressedSize = 0, offset = 0] = [24, 20, 42].map((place) => {
    const narrow = entry.readUInt32LE(place)
    if (narrow !== IN_ZIP64 || at + 8 > wide.length) return narrow
    at += 8
    return toNumber(wide.readBigUInt64LE(at - 8))
  })
  return { compressedSize, offset }
}

async function* content(handle: FileHandle, { name, isEncrypted, method, compressedSize, offset }: Entry) {
  if (isEncrypted) throw damaged(`${name} in it is encrypted`)
  const local = await bytes(handle, offset, offset + LOCAL_BYTES)
  const start = offset + LOCAL_BYTES + local.readUInt16LE(26) + local.readUInt16LE(28)
  if (compressedSize === 0) return
  const stream = handle.createReadStream({ start, end: start + compressedSize - 1, autoClose: false })
  if (method === 0) return yield* stream as AsyncIterable<Buffer>
  if (method !== 8) throw damaged(`${name} in it is compressed by method ${method}, which is not known here`)
  yield* pipeline(stream, createInflateRaw(), () => undefined) as AsyncIterable<Buffer>
}

/** @param end exclusive */
async function bytes(handle: FileHandle, start: number, end: number): Promise<Buffer> {
  const length = end - start
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, start)
  if (bytesRead < length) throw damaged('it is cut off')
  return buffer
}

function toNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged('it names a place that no file has')
  return Number(value)
}

function damaged(what: string): Error {
  return new Error(`The zip archive cannot be read: ${what}.`)
}
