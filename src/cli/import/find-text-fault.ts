import { isUtf8 } from 'node:buffer'
import { LINE_FEED } from '../../json/bytes.js'
import type { Head } from './input.js'

const CARRIAGE_RETURN = 0x0d
const SHOWN = 200
const COMPRESSED = /\.(?:gz|gzip|zst|zstd|br|zip)$/i
/** First bytes of binary formats, from their specifications. */
const SIGNATURES: [start: string, what: string][] = [
  ['PAR1', 'a Parquet file: convert it to NDJSON or CSV'],
  ['Obj\x01', 'an Avro file: convert it to NDJSON or CSV'],
  ['SQLite format 3\0', 'an SQLite database: export its table as CSV'],
  ['%PDF', 'a PDF file'],
  ['BZh', 'compressed with bzip2: pipe it through bzcat'],
  ['\xfd7zXZ\0', 'compressed with xz: pipe it through xzcat'],
  ['7z\xbc\xaf', 'a 7z archive: unpack it first'],
  ['\xd0\xcf\x11\xe0', 'an old or encrypted Office document: if it is a workbook, save its sheet as CSV in UTF-8'],
  [
    'application/vnd.oasis.opendocument',
    'an OpenDocument file: if it is a spreadsheet, save its sheet as CSV in UTF-8',
  ],
]
const SIGNATURE_BYTES = 64
/** Office documents by a word in the XML that their archives begin with (ECMA-376). */
const OFFICE: [word: string, what: string][] = [
  ['spreadsheetml', 'an Excel workbook. Save its sheet as CSV in UTF-8'],
  ['wordprocessingml', 'a Word document'],
  ['presentationml', 'a PowerPoint presentation'],
  ['schemas.openxmlformats.org', 'an Office document. If it is a workbook, save its sheet as CSV in UTF-8'],
]
/** Where the header of a tar archive has the word `ustar` (POSIX, pax). */
const TAR_AT = 257

/** Quotes bytes in a message: one line, of bounded length. */
export function quote(bytes: Buffer): string {
  const text = bytes.toString('utf8', 0, 4 * SHOWN)
  const line = text.replace(/\s+/g, ' ').trim()
  return JSON.stringify(line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line)
}

/** Explains why the beginning of an input is not importable text; null if it may be. */
export function findTextFault({ bytes, isWhole }: Head, name: string): string | null {
  const start = bytes.toString('latin1', 0, SIGNATURE_BYTES)
  const other = SIGNATURES.find(([signature]) => start.startsWith(signature))
  if (other) return `${name} is ${other[1]}.`
  if (bytes.toString('latin1', TAR_AT, TAR_AT + 5) === 'ustar') return `${name} is a tar archive: unpack it first.`
  const wide = wideEncoding(bytes)
  if (wide) return `${name} is in ${wide}. ${reencoding(wide, name)}`
  if (/^<[!?a-z]/i.test(bytes.toString('latin1', 0, 400).trimStart())) {
    const office = OFFICE.find(([word]) => bytes.includes(word))
    if (office) return `${name} is ${office[1]}.`
    return `${name} is HTML or XML, not NDJSON, a JSON array or CSV. It begins with ${quote(bytes)}.`
  }
  if (bytes.includes(0)) return `${name} is not text. It begins with ${quote(bytes)}.`
  // The text of an archive has a line feed after each file.
  const hasEnd = bytes.at(-1) === LINE_FEED
  const lines = hasEnd ? bytes.subarray(0, -1) : bytes
  const hasOldLineEnds = lines.includes(CARRIAGE_RETURN) && !lines.includes(LINE_FEED)
  // A carriage return is harmless between array elements, and at the end of a single line.
  const isHarmless =
    /^\s*\[/.test(bytes.toString('latin1', 0, 400)) || lines.indexOf(CARRIAGE_RETURN) === lines.length - 1
  if (hasOldLineEnds && !((isWhole || hasEnd) && isHarmless)) {
    return `The lines of ${name} end with a carriage return alone, as on old Macs. ${conversion("tr '\\r' '\\n' <", name)}. It begins with ${quote(bytes)}.`
  }
  return null
}

function wideEncoding(bytes: Buffer): string | null {
  if (bytes.length < 2) return null
  const mark = bytes.readUInt16BE()
  if (mark === 0xfffe) return 'UTF-16LE'
  if (mark === 0xfeff) return 'UTF-16BE'
  // Without a byte order mark, ASCII text in UTF-16 has a zero in every other byte.
  const start = bytes.subarray(0, 64)
  const zeros = (first: number) => start.every((byte, i) => (i % 2 === first ? byte === 0 : byte !== 0))
  if (start.length < 8) return null
  return zeros(1) ? 'UTF-16LE' : zeros(0) ? 'UTF-16BE' : null
}

/**
 * Explains why the column names or the rows are not UTF-8; null if they are, apart from a few rows that will be
 * rejected.
 */
export function findEncodingFault(lines: readonly Buffer[], name: string): string | null {
  const wrong = lines.filter((line) => !isUtf8(line))
  const [first] = wrong
  if (!first) return null
  const right = lines.filter((line) => isUtf8(line) && line.some((byte) => byte > 0x7f))
  if (wrong.length === 1 && wrong[0] !== lines[0]) return null
  if (wrong.length <= right.length && wrong[0] !== lines[0]) return null
  const encoding = likelyEncoding(Buffer.concat(wrong))
  const text = new TextDecoder(encoding).decode(first.subarray(0, SHOWN))
  return `${name} is not in UTF-8, but probably in ${encoding}, in which one line reads ${JSON.stringify(text)}. ${reencoding(encoding, name)}`
}

/** Guesses the encoding, among those that spreadsheets save. */
function likelyEncoding(bytes: Buffer): string {
  // Shift JIS uses pairs of bytes above 0x7f; in Western encodings such bytes are single, between ASCII letters.
  const high = bytes.filter((byte) => byte > 0x7f).length
  const pairs = bytes.filter(
    (byte, i) => byte > 0x80 && byte < 0xfd && (bytes[i + 1] ?? 0) > 0x3f && (i === 0 || (bytes[i - 1] ?? 0) < 0x80),
  ).length
  const isDense = high > 8 && bytes.filter((byte, i) => byte > 0x7f && (bytes[i + 1] ?? 0) > 0x7f).length > high / 3
  if (!isDense || pairs === 0) return 'windows-1252'
  for (const encoding of ['shift_jis', 'gb18030', 'windows-1251']) {
    try {
      new TextDecoder(encoding, { fatal: true }).decode(bytes)
      return encoding
    } catch {
      // Try the next encoding.
    }
  }
  return 'windows-1252'
}

function reencoding(encoding: string, name: string): string {
  return conversion(`iconv -f ${encoding.toUpperCase()} -t UTF-8`, name)
}

function conversion(command: string, name: string): string {
  const isCompressed = COMPRESSED.test(name)
  const how = isCompressed ? 'Decompress it, and convert what was in it' : 'Convert it'
  return `${how}: ${command} ${isCompressed ? 'FILE' : shellWord(name)} > new-file`
}

function shellWord(name: string): string {
  if (name === 'standard input') return 'FILE'
  return /^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`
}
