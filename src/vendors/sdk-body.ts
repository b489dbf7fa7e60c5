import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'
import { decompressLzString, LzStringError, LzStringTooLongError } from './lz-string.js'

/** The contents of an SDK's request. */
export interface SdkBody {
  /** JSON as the SDK wrote it, in UTF-8; empty if the request has none */
  json: Buffer
  /** fields of the query and of the form; the form takes precedence */
  fields: Map<string, string>
}

/** The body is not one that an SDK sends; the message says what is wrong, without quoting it. */
export class SdkBodyError extends Error {
  override readonly name = 'SdkBodyError'
}

/** The decompressed body is larger than allowed. */
export class SdkBodyTooLargeError extends Error {
  override readonly name = 'SdkBodyTooLargeError'
}

/** Matches the beginning of an SDK's form. Neither JSON nor base64 of JSON begins like this. */
const FORM = /^(?:data|e|event|identification|mapping|checksum|client|api_key)=/
const AMPERSAND = '&'
/**
 * Fields that contain the JSON; the first one found is used: of Mixpanel and PostHog, of amplitude-js 8, and of
 * Amplitude's older HTTP APIs.
 */
const JSON_FIELDS = ['data', 'e', 'event', 'identification', 'mapping']
/** Maximum fields of a form. SDKs send fewer than ten. */
const MAX_FIELDS = 1000
/** Some libraries break base64 into lines, so white space is allowed. */
const NOT_OF_BASE64 = /[^\w+/\s-]/
const PADDING = /={1,2}$/
const PERCENT = 0x25
/** bytes that the decompression yields at a time */
const CHUNK_BYTES = 64 * 1024
const NOTHING = Buffer.alloc(0)
/** Value of `compression` for lz-string in older SDKs of PostHog. */
const LZ_STRING = 'lz64'

/**
 * Extracts the JSON from a request. SDKs send it plain, gzipped without a header, in a form, or in base64, and their
 * content types are unreliable, so the bytes decide. Only lz-string, whose base64 looks like any other, is recognised
 * by the field `compression`.
 * @param raw the body, without its Content-Encoding; empty for a GET
 * @param query of the URL, without the question mark
 * @param maxBytes maximum size of the decompressed body
 * @param take called with the bytes by which the body has grown, before it grows further; may throw to end the
 * decompression
 * @throws SdkBodyError, SdkBodyTooLargeError
 */
export async function unwrapSdkBody(
  raw: Buffer,
  query: string,
  maxBytes: number,
  take: (bytes: number) => void,
): Promise<SdkBody> {
  const bytes = isGzip(raw) ? await decompress(raw, maxBytes, take) : raw
  const inQuery = readForm(Buffer.from(query))
  if (isJson(bytes)) return { json: toUtf8(bytes), fields: inQuery.fields }
  const isForm = FORM.test(bytes.toString('latin1', 0, 16)) || bytes.includes(AMPERSAND)
  const form = isForm ? readForm(bytes) : null
  const fields = new Map([...inQuery.fields, ...(form?.fields ?? [])])
  const { value = NOTHING } = bytes.length === 0 ? inQuery : (form ?? { value: bytes })
  if (value.length === 0 && !form?.value) return { json: NOTHING, fields }
  if (fields.get('compression') === LZ_STRING) {
    const text = percentDecoded(value, false)
    if (!isJson(text) && !isBase64OfJson(text)) return { json: await fromLzString(text, maxBytes, take), fields }
  }
  return { json: fromField(value), fields }
}

function isGzip(raw: Buffer): boolean {
  return raw[0] === 0x1f && raw[1] === 0x8b
}

async function decompress(raw: Buffer, maxBytes: number, take: (bytes: number) => void): Promise<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES })
  gunzip.end(raw)
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const piece of gunzip) {
      const chunk = piece as Buffer
      length += chunk.length
      if (length > maxBytes) throw new SdkBodyTooLargeError()
      take(chunk.length)
      chunks.push(chunk)
    }
  } catch (error) {
    if (!String((error as NodeJS.ErrnoException).code).startsWith('Z_')) throw error
    throw new SdkBodyError('The body looks like gzip, but cannot be decompressed.')
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, length)
}

/**
 * @returns the fields of a form, and the undecoded value of the one with the JSON; undefined if there is none
 * @throws SdkBodyError
 */
function readForm(form: Buffer): { fields: Map<string, string>; value: Buffer | undefined } {
  const fields = new Map<string, string>()
  const found = new Map<string, Buffer>()
  let count = 0
  for (let start = 0; start < form.length; ) {
    if (++count > MAX_FIELDS) throw new SdkBodyError('The form has too many fields.')
    const separator = form.indexOf('&', start)
    const end = separator === -1 ? form.length : separator
    const equals = form.subarray(start, end).indexOf('=')
    if (equals !== -1) {
      const name = percentDecoded(form.subarray(start, start + equals), true).toString()
      const value = form.subarray(start + equals + 1, end)
      if (JSON_FIELDS.includes(name)) found.set(name, value)
      else fields.set(name, percentDecoded(value, true).toString())
    }
    start = end + 1
  }
  const name = JSON_FIELDS.find((each) => found.has(each))
  return { fields, value: name === undefined ? undefined : found.get(name) }
}

/**
 * @param base64 whose plus signs may have become spaces
 * @throws SdkBodyError, SdkBodyTooLargeError
 */
async function fromLzString(base64: Buffer, maxBytes: number, take: (bytes: number) => void): Promise<Buffer> {
  const digits = Buffer.from(base64.toString('latin1').trim().replaceAll(' ', '+'), 'latin1')
  // Each code unit needs at least one byte of UTF-8, so `maxBytes` limits these, too.
  const decoding = decompressLzString(digits, maxBytes, take)
  try {
    let step = decoding.next()
    while (!step.done) {
      await nextTurn()
      step = decoding.next()
    }
    const text = step.value
    if (!text.isWellFormed()) throw new SdkBodyError('The text is not valid Unicode.')
    const length = Buffer.byteLength(text)
    if (length > maxBytes) throw new SdkBodyTooLargeError()
    take(length)
    const json = Buffer.from(text)
    if (!isJson(json)) throw new SdkBodyError('The decompressed body is not JSON.')
    return json
  } catch (error) {
    if (error instanceof LzStringTooLongError) throw new SdkBodyTooLargeError()
    if (!(error instanceof LzStringError)) throw error
    throw new SdkBodyError('The body should be compressed with lz-string, but is not.')
  }
}

/**
 * Decodes a form value. A plus sign is a space in JSON, but literal in base64, which mixpanel for Node does not
 * percent-encode.
 */
function fromField(value: Buffer): Buffer {
  const decoded = percentDecoded(value, false)
  if (!isJson(decoded)) return fromBase64(decoded.toString('latin1'))
  return toUtf8(percentDecoded(value, true))
}

function fromBase64(text: string): Buffer {
  const trimmed = text.trim()
  // Separate expressions stay linear; a combined one could try every end of a long run of spaces.
  if (NOT_OF_BASE64.test(trimmed.replace(PADDING, ''))) {
    throw new SdkBodyError('The body is neither JSON nor base64 of JSON.')
  }
  const bytes = Buffer.from(trimmed.replaceAll(' ', '+'), 'base64')
  if (!isJson(bytes)) throw new SdkBodyError('The base64 of the body does not contain JSON.')
  return toUtf8(bytes)
}

/**
 * Whether this is plain base64, although the SDK declares it as compressed. lz-string never produces such text for
 * JSON.
 */
function isBase64OfJson(text: Buffer): boolean {
  return isJson(Buffer.from(text.toString('latin1', 0, 64), 'base64'))
}

function isJson(bytes: Buffer): boolean {
  let at = 0
  while (at < bytes.length && (bytes[at] ?? 0) <= 0x20) at++
  return bytes[at] === 0x7b || bytes[at] === 0x5b
}

function percentDecoded(text: Buffer, isPlusSpace: boolean): Buffer {
  if (!text.includes(PERCENT) && !(isPlusSpace && text.includes('+'))) return text
  const result = Buffer.allocUnsafe(text.length)
  let length = 0
  for (let i = 0; i < text.length; i++) {
    let byte = text[i] ?? 0
    if (byte === PERCENT) {
      const [high, low] = [hexDigit(text[i + 1]), hexDigit(text[i + 2])]
      // A percent sign that encodes nothing is literal, as in browsers.
      if (high >= 0 && low >= 0) {
        byte = (high << 4) | low
        i += 2
      }
    } else if (isPlusSpace && byte === 0x2b) {
      byte = 0x20
    }
    result[length++] = byte
  }
  return result.subarray(0, length)
}

/** Returns the value of a hexadecimal digit; negative for any other byte. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/**
 * Converts to UTF-8. Also accepts the CESU-8 of mixpanel-browser, which encodes each half of a surrogate pair
 * separately.
 * @throws SdkBodyError for anything else, because a lenient decoder would store U+FFFD instead of the text
 */
function toUtf8(bytes: Buffer): Buffer {
  if (isUtf8(bytes)) return bytes
  const joined = joinSurrogates(bytes)
  if (!isUtf8(joined)) throw new SdkBodyError('The text is not valid UTF-8.')
  return joined
}

/** Replaces each pair of encoded surrogates, `ed a0..af xx ed b0..bf xx`, by the UTF-8 of its character. */
function joinSurrogates(bytes: Buffer): Buffer {
  const result = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let i = 0; i < bytes.length; i++) {
    const high = surrogateAt(bytes, i)
    const low = surrogateAt(bytes, i + 3)
    if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00) {
      length += result.write(String.fromCharCode(high, low), length)
      i += 5
    } else {
      result[length++] = bytes[i] ?? 0
    }
  }
  return result.subarray(0, length)
}

/** Returns the surrogate whose three bytes begin at `at`, or 0. */
function surrogateAt(bytes: Buffer, at: number): number {
  const [first, second = 0, third = 0] = [bytes[at], bytes[at + 1], bytes[at + 2]]
  if (first !== 0xed || second < 0xa0 || second > 0xbf || (third & 0xc0) !== 0x80) return 0
  return 0xd000 | ((second & 0x3f) << 6) | (third & 0x3f)
}
