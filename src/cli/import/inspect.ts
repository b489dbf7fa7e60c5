import { isUtf8 } from 'node:buffer'
import { ANONYMOUS } from '../../contract/user-names.js'
import { RowFault, readRow } from '../../vendors/row.js'
import type { TimeFormat } from '../../vendors/time.js'
import { VENDORS } from '../../vendors/vendors.js'
import { type CellType, guessType } from './cell-types.js'
import { checkColumns, checkDelimiter, checkFields } from './column-checks.js'
import { CsvReader } from './csv.js'
import { EventSource, type Outcome } from './event-source.js'
import { findEncodingFault, findTextFault, quote } from './find-text-fault.js'
import { findFormat, type InputFormat } from './formats.js'
import type { Head, Input } from './input.js'
import { isBlank, type Row, type RowReader, RowsError } from './lines.js'
import { FIXED_NAMES, type FieldNames, FirstTime, OWN_NAMES } from './native-rows.js'
import type { InputOptions } from './options.js'
import { readerFromStart } from './readers.js'
import { guessTimeFormat, type WrittenTime } from './row-times.js'

/** Rows of the head that are inspected. */
const SAMPLE_ROWS = 1000
const SHOWN_EVENTS = 3

/** The guesses from the head of an input. An import saves it, so that a resumed run does the same. */
export interface Guesses {
  time: TimeFormat | undefined
  /** whether a row without a time is rejected */
  needsTime: boolean
  types: [column: string, type: CellType][]
  /** see `CsvOptions` */
  hasStrays: boolean
}

const NO_GUESSES: Guesses = { time: undefined, needsTime: false, types: [], hasStrays: false }

/** The result of inspecting the head of an input. */
export interface Inspected {
  format: InputFormat
  /** the beginning of its text */
  beginning: Buffer
  guesses: Guesses
  /** whether any row in the head has a time */
  hasTimes: boolean
  /** the column names of CSV; null for other formats */
  columns: string[] | null
  /** columns or fields that no event gets, because its properties are in one of their own */
  leftOut: string[]
  /** number of rows in the head */
  rows: number
  /** what the first events become */
  events: string[]
  faults: { line: number; reason: string }[]
  skipped: number
  profiles: number
  /** whether any event has a session, and one a visitor; only looked at in exports of web analytics */
  hasSession: boolean
  hasVisitor: boolean
  /** whether the head is the whole input */
  isWhole: boolean
}

/**
 * Inspects the head of an input before anything is sent.
 * @throws Error with a sentence for the user if the input cannot be imported with these options; nothing was stored
 */
export async function inspect(input: Input, options: InputOptions): Promise<Inspected> {
  try {
    return inspectHead(await input.head(), input, options)
  } catch (error) {
    throw error instanceof RowsError ? error.in(input.name) : error
  }
}

function inspectHead(head: Head, input: Input, options: InputOptions): Inspected {
  const fault = findTextFault(head, input.name)
  if (fault) throw new Error(fault)
  const emptyFault = options.from && VENDORS[options.from].emptyFault
  if (emptyFault && head.isWhole && isBlank(head.bytes, 0, head.bytes.length)) {
    throw new Error(`${input.name} is empty. ${emptyFault}`)
  }
  const format = options.format ?? findFormat(head.bytes)
  if (Object.keys(options.types).length > 0 && format !== 'csv') {
    throw new Error(`--types is for CSV, but ${input.name} is ${format === 'json' ? 'a JSON array' : 'NDJSON'}.`)
  }
  const plain = { delimiter: options.delimiter, hasStrays: false, types: new Map() }
  const reader = readerFromStart(format, plain)
  const sample = takeSample(head, reader, options.names)
  const columns = reader instanceof CsvReader ? reader.columns : null
  const encoding = findEncodingFault(sample.lines, input.name)
  if (encoding) throw new Error(encoding)
  if (columns) (options.from ? checkDelimiter : checkColumns)(columns, head.bytes, options, input.name)
  if (!columns && !options.from && sample.read > 0) checkFields([...sample.cells.keys()], options.names, input.name)
  const guesses = guess(sample, columns, options)
  if (reader instanceof CsvReader) guesses.hasStrays = reader.strays > 0
  const hasTimes = sample.times.length > 0
  const leftOut = options.from ? [] : findLeftOut(columns, sample, options.names)
  const found = { format, beginning: head.bytes, guesses, hasTimes, columns, leftOut }
  const inspected = { ...found, ...tried(head, format, options, guesses) }
  checkEvents(inspected, head, sample, input.name)
  if (head.failure) throw head.failure
  return { ...inspected, isWhole: head.isWhole && inspected.rows < SAMPLE_ROWS }
}

/** Completes the options of an import with the guesses. */
export function withGuesses<Options extends InputOptions>(options: Options, { time, needsTime }: Guesses): Options {
  return { ...options, time: options.time ?? time, needsTime }
}

interface Sample {
  /** the bytes of the rows; for CSV the header comes first */
  lines: Buffer[]
  times: WrittenTime[]
  /** non-empty cells by column, or by field for JSON */
  cells: Map<string, string[]>
  /** fields of rows that have a field for the properties */
  beside: Set<string>
  /** rows that could be read */
  read: number
  /** the reader's own error; null if it reached the end of the head */
  failure: unknown
}

function takeSample(head: Head, reader: RowReader, names: FieldNames): Sample {
  const sample: Sample = { lines: [], times: [], cells: new Map(), beside: new Set(), read: 0, failure: null }
  try {
    for (const row of readRows(head, reader)) {
      const bytes = row.raw.subarray(row.start, row.end)
      if (sample.lines.length === 0 && reader instanceof CsvReader) sample.lines.push(row.raw.subarray(0, row.start))
      sample.lines.push(bytes)
      if (row.fault === null && !row.isEmpty && (row.isUtf8 || isUtf8(bytes))) noteFields(sample, row, bytes, names)
    }
  } catch (error) {
    sample.failure = error
  }
  return sample
}

function noteFields(sample: Sample, row: Row, bytes: Buffer, names: FieldNames): void {
  try {
    const isTable = row.table !== null
    const json = readRow(row.table === null ? bytes : Buffer.from(row.table), isTable)
    const time = json.readText(names.timestamp)
    if (time !== undefined) sample.times.push({ text: time, line: row.line })
    const hasProperties = json.has(names.properties)
    for (const [name, value] of Object.entries(JSON.parse(json.text) as Record<string, unknown>)) {
      if (hasProperties) sample.beside.add(name)
      const cells = sample.cells.get(name) ?? []
      if (isTable && value !== '') cells.push(value as string)
      sample.cells.set(name, cells)
    }
    sample.read++
  } catch (error) {
    // The import will reject the row with this reason.
    if (!(error instanceof RowFault)) throw error
  }
}

/** Finds what is neither stored nor, like the id in our own exports, made anew. */
function findLeftOut(columns: string[] | null, { beside }: Sample, names: FieldNames): string[] {
  const fields = columns ? columns.filter(() => columns.includes(names.properties)) : [...beside]
  const known = [...Object.values(names), ...Object.values(OWN_NAMES), ...FIXED_NAMES, 'eventId']
  return fields.filter((name) => !known.includes(name))
}

function* readRows({ bytes, isWhole }: Head, reader: RowReader): Generator<Row> {
  let left = SAMPLE_ROWS
  for (const row of reader.read(bytes)) {
    yield row
    if (--left === 0) return
  }
  if (!isWhole) return
  for (const row of reader.end()) {
    yield row
    if (--left === 0) return
  }
}

function guess({ times, cells }: Sample, columns: string[] | null, options: InputOptions): Guesses {
  const { names, from, zone } = options
  if (from) return { ...NO_GUESSES }
  const time = options.time ?? guessTimeFormat(times)
  const isMapped = names.timestamp !== OWN_NAMES.timestamp
  const needsTime = times.length > 0 && (columns !== null || isMapped)
  const own = [names.event, names.distinct_id, names.timestamp, ...FIXED_NAMES]
  const types = columns?.includes(names.properties)
    ? []
    : (columns ?? [])
        .filter((column) => !own.includes(column))
        .map((column): [string, CellType] => {
          const given = Object.hasOwn(options.types, column) ? options.types[column] : undefined
          return [
            column,
            given ? { name: given, isGiven: true, zone } : { name: guessType(cells.get(column) ?? []), isGiven: false },
          ]
        })
        .filter(([, { name }]) => name !== 'text')
  return { ...NO_GUESSES, time, needsTime, types }
}

/** Tries to convert the rows of the head. */
function tried(head: Head, format: InputFormat, options: InputOptions, guesses: Guesses) {
  const all = withGuesses(options, guesses)
  const { delimiter } = options
  const reader = readerFromStart(format, { delimiter, hasStrays: guesses.hasStrays, types: new Map(guesses.types) })
  const source = new EventSource(all, new FirstTime(all, true))
  const fields = options.from && VENDORS[options.from].optionalFields
  const counts = { rows: 0, skipped: 0, profiles: 0, good: 0 }
  const found = {
    ...counts,
    events: [] as string[],
    faults: [] as Inspected['faults'],
    hasSession: false,
    hasVisitor: false,
  }
  try {
    for (const row of readRows(head, reader)) {
      found.rows++
      const outcome = source.convert(row)
      note(found, row, outcome)
      if (fields && typeof outcome === 'object' && 'events' in outcome) noteFound(found, outcome.events)
    }
  } catch (error) {
    // The import stores the rows before it, and ends with the error.
    if (found.good === 0) throw error
  }
  return found
}

function note(
  found: Pick<Inspected, 'events' | 'faults' | 'skipped' | 'profiles'> & { good: number },
  row: Row,
  outcome: Outcome,
): void {
  if (outcome === 'skipped') found.skipped++
  else if (outcome !== 'verbatim' && 'fault' in outcome) found.faults.push({ line: row.line, reason: outcome.fault })
  else {
    found.good++
    if (outcome !== 'verbatim') found.profiles += outcome.people.filter(({ kind }) => kind !== 'alias').length
    const texts = outcome === 'verbatim' ? [row.raw.subarray(row.start, row.end)] : outcome.events
    for (const text of texts.slice(0, SHOWN_EVENTS - found.events.length)) found.events.push(text.toString())
  }
}

function noteFound(found: Pick<Inspected, 'hasSession' | 'hasVisitor'>, events: readonly Buffer[]): void {
  for (const text of events) {
    const event = readRow(text)
    found.hasSession ||= event.has('session_id')
    found.hasVisitor ||= event.value('distinct_id') !== ANONYMOUS
  }
}

/** @throws Error if nothing in the head is an event */
function checkEvents(
  { rows, faults }: Pick<Inspected, 'rows' | 'faults'>,
  head: Head,
  sample: Sample,
  name: string,
): void {
  const [first] = faults
  if (!first || faults.length < rows) return
  const what =
    head.isWhole && rows < SAMPLE_ROWS
      ? `None of the ${rows} rows of ${name}`
      : `None of the first ${rows} rows of ${name}`
  const text = sample.lines.at(-rows) ?? head.bytes
  throw new Error(
    `${rows === 1 ? `The only row of ${name} that was checked is not an event` : `${what} is an event`}, so nothing was stored. Line ${first.line}: ${first.reason} It is ${quote(text)}.`,
  )
}
