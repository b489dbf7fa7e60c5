import { crc32 } from 'node:zlib'
import { type Entry, openPromise, type ZipFile } from 'yauzl'

/** A file in an archive. */
export interface Member {
  name: string
  /** must be read before the next member is requested */
  content: AsyncIterable<Buffer>
}

/** The code of zlib's errors about damaged data. */
const DAMAGED = 'Z_DATA_ERROR'

/**
 * Reads the files in a zip archive, stored or deflated, zip64 included, in the order of its directory. Size and
 * CRC-32 are checked at the end of each file, so an error is thrown after its content was yielded.
 * @throws Error if the archive is damaged or of an unsupported kind
 */
export async function* unzip(path: string): AsyncGenerator<Member> {
  const archive = await openPromise(path, { lazyEntries: true, autoClose: false }).catch(refuse)
  try {
    const entries = archive.eachEntry()[Symbol.asyncIterator]()
    for (;;) {
      const next = await entries.next().catch(refuse)
      if (next.done) return
      const { fileName: name } = next.value
      if (!name.endsWith('/')) yield { name, content: readContent(archive, next.value) }
    }
  } finally {
    archive.close()
  }
}

async function* readContent(archive: ZipFile, entry: Entry): AsyncGenerator<Buffer> {
  const stream = await archive.openReadStreamPromise(entry).catch(refuse)
  let sum = 0
  let bytes = 0
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      sum = crc32(chunk, sum)
      bytes += chunk.length
      yield chunk
    }
    if (bytes !== entry.uncompressedSize)
      throw new Error(`${entry.fileName} in it does not have the size given in the archive's directory`)
    if (sum !== entry.crc32) throw new Error(`the CRC-32 of ${entry.fileName} in it does not match`)
  } catch (error) {
    throw Object.assign(error as Error, { code: (error as { code?: string }).code ?? DAMAGED })
  }
}

function refuse(error: Error): never {
  throw new Error(`The zip archive cannot be read: ${error.message.replace(/\.+$/, '')}.`, { cause: error })
}
