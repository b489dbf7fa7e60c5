import { elementTexts, isArray, isNumber, memberTexts } from '../json/texts.js'
import { type JsonValue, readJson } from '../json/value.js'
import { parseDecimal, type TimeFormat, toMilliseconds } from './time.js'

/** The row is not an event; the message says why. */
export class RowFault extends Error {
  override readonly name = 'RowFault'
}

/** A `RowFault` because of one field. */
export class FieldFault extends RowFault {
  readonly field: string
  readonly isMissing: boolean

  constructor(message: string, field: string, isMissing = false) {
    super(message)
    this.field = field
    this.isMissing = isMissing
  }
}

/** The row is not meant to be an event. */
export class NoEvent extends Error {
  override readonly name = 'NoEvent'
}

/** A JSON object whose members can be read by name, as the exact texts in the input. */
export class JsonRow {
  /** whether it comes from a table, whose values are all strings, and empty ones count as missing */
  readonly isTable: boolean
  readonly #object: JsonValue

  /** @throws RowFault if it is not an object */
  constructor(object: JsonValue, isTable = false) {
    if (!object.isObject) throw new RowFault('The row is not a JSON object.')
    this.#object = object
    this.isTable = isTable
  }

  get text(): string {
    return this.#object.text
  }

  has(name: string): boolean {
    return this.#object.member(name) !== undefined
  }

  value(name: string): unknown {
    const value = this.#object.member(name)?.value
    return this.isTable && value === '' ? undefined : value
  }

  /** Returns the exact text of a member's value; undefined if it is missing or null. */
  readText(name: string): string | undefined {
    const text = this.#object.member(name)?.text
    return text === 'null' || (this.isTable && text === '""') ? undefined : text
  }

  /** Returns a string, or a number as the input spells it; undefined if it is missing or null. */
  readName(name: string): unknown {
    const value = this.value(name) ?? undefined
    return typeof value === 'number' ? this.readText(name) : value
  }

  /** Like `readName`, but undefined if the value is empty or of another type. */
  readNonEmpty(name: string): string | undefined {
    const value = this.readName(name)
    return typeof value === 'string' && value !== '' ? value : undefined
  }

  /**
   * Returns the text of the object in a member; undefined if the member is missing or null. An empty array counts as an
   * empty object, because PHP encodes it that way.
   * @param isQuoted whether a string may contain the object, as in tables and some exports
   * @throws FieldFault if the member is anything else
   */
  readObject(name: string, isQuoted = this.isTable): string | undefined {
    const member = this.#object.member(name)
    if (!member || member.isNull) return undefined
    const text = isQuoted ? unquoted(member.text) : member.text
    if (text === undefined || text === 'null') return undefined
    if (text.startsWith('{')) return text
    if (isEmptyArray(text)) return '{}'
    throw new FieldFault(`The ${name} ${name.endsWith('s') ? 'are' : 'is'} not an object.`, name)
  }

  /**
   * Like `readObject`, but gives access to the object's members.
   * @throws FieldFault like `readObject`
   */
  readNestedRow(name: string, isQuoted = this.isTable): JsonRow | undefined {
    const member = this.#object.member(name)
    if (member?.isObject) return new JsonRow(member)
    const text = this.readObject(name, isQuoted)
    return text === undefined ? undefined : readRow(Buffer.from(text))
  }

  /** Returns the elements of the array in a member; undefined if it is missing or null, null if it is anything else. */
  readElements(name: string): JsonValue[] | null | undefined {
    const member = this.#object.member(name)
    if (!member || member.isNull) return undefined
    return member.isArray ? member.elements() : null
  }

  /** Returns the text of an object with all members except these. */
  without(names: readonly string[]): string {
    return this.#object.textWithout((name, text) => names.includes(name) || (this.isTable && text === '""'))
  }
}

/**
 * Parses a row as an object.
 * @param raw valid UTF-8
 * @param isTable as in `JsonRow`
 * @throws RowFault if the row is not a JSON object
 */
export function readRow(raw: Buffer, isTable = false): JsonRow {
  const value = readJson(raw)
  if (value) return new JsonRow(value, isTable)
  parse(raw.toString())
  throw new RowFault('The row is not valid JSON.')
}

/** An object without members. */
export const EMPTY_ROW = readRow(Buffer.from('{}'))

/** Builds the text of an object from the texts of its members' values. */
export function objectText(entries: (readonly [name: string, text: string])[]): string {
  return `{${entries.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
}

/**
 * Adds a member to the text of the properties, with the fields of the row that are not in `used`.
 * @param properties the text of an object
 */
export function withRest(row: JsonRow, properties = '{}', name: string, used: readonly string[]): string {
  const comma = isEmpty(properties) ? '' : ','
  return `${properties.slice(0, properties.lastIndexOf('}'))}${comma}${JSON.stringify(name)}:${row.without(used)}}`
}

/** Makes the operations that set the members of an object; none if it is empty. */
export function toSetOperations(object = '{}'): string[] {
  return isEmpty(object) ? [] : [objectText([['$set', object]])]
}

/**
 * Parses a name: a string, or a number as the input spells it; undefined for any other value.
 * @param text of a JSON value
 */
export function parseName(text: string): string | undefined {
  if (isNumber(text)) return text
  const value: unknown = text.startsWith('"') ? JSON.parse(text) : undefined
  return typeof value === 'string' ? value : undefined
}

/** A number as JSON writes it. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i

/**
 * Unwraps a number in a string, as databases write some. Any other value is returned unchanged.
 * @param text of a JSON value
 */
export function unquotedNumber(text: string): string {
  const spelled = parseName(text)
  return spelled !== undefined && NUMBER.test(spelled) ? spelled : text
}

/**
 * Like `unquotedNumber`, for the members with these names.
 * @param text of a JSON object, or of a list of these
 */
export function withNumbers(text: string, names: RegExp): string {
  if (isArray(text))
    return `[${elementTexts(text)
      .map((one) => withNumbers(one, names))
      .join(',')}]`
  if (!text.startsWith('{')) return text
  return objectText(
    [...memberTexts(text)].map(([name, value]) => [name, names.test(name) ? unquotedNumber(value) : value]),
  )
}

/** @param object the text of a JSON object */
export function isEmpty(object: string): boolean {
  return /^\{\s*\}$/.test(object)
}

/** @param text of a JSON value */
export function isEmptyArray(text: string): boolean {
  return /^\[\s*\]$/.test(text)
}

/**
 * Converts a time to milliseconds, as the text of a JSON number. A time already in milliseconds is not changed.
 * @param text of a JSON value
 * @throws RowFault if it is not a time in this format
 */
export function timestampText(text: string | undefined, format: TimeFormat): string | undefined {
  if (text === undefined) return undefined
  const isString = text.startsWith('"')
  if (format === 'ms' && !isString) return text
  const content = (isString ? (JSON.parse(text) as string) : text).trim()
  const ms = format === 'ms' ? parseDecimal(content) : toMilliseconds(content, format)
  if (ms !== null && (format !== 'iso' || isString)) return String(ms)
  throw new RowFault(`The timestamp ${text.slice(0, 100)} is not ${TIME_WORDS[format]}.`)
}

/** Excel displays long numbers like this, and saves what it displays. */
export const SHORTENED = /^(-?\d(?:[.,]\d*)?)e\+(\d{1,2})$/i

/**
 * Checks that a time is not one that a spreadsheet has shortened.
 * @param content of a string
 * @throws RowFault if its last digits are missing
 */
export function checkDigits(content: string): void {
  const [, mantissa, exponent] = SHORTENED.exec(content) ?? []
  if (mantissa === undefined || mantissa.replace(/\D/g, '').length > Number(exponent)) return
  throw new RowFault(
    `The timestamp ${content} is in scientific notation, as Excel writes long numbers, and its last digits are lost. Format the column as a number without decimals, and save the file again.`,
  )
}

/** The formats, for messages about a time in another one. */
export const TIME_WORDS: Record<TimeFormat, string> = {
  iso: 'an ISO 8601 time',
  s: 'a number of seconds',
  ms: 'a number of milliseconds',
  us: 'a number of microseconds',
  ns: 'a number of nanoseconds',
}

/**
 * Unwraps JSON inside a string, as tables and some exports have it.
 * @param text of a JSON value; anything but a string is returned unchanged
 * @throws RowFault if the string is not valid JSON
 */
export function unquoted(text: string | undefined): string | undefined {
  if (text === undefined || !text.startsWith('"')) return text
  const content = (JSON.parse(text) as string).trim()
  if (content === '') return undefined
  parse(content)
  return content
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'it cannot be read'
    throw new RowFault(`The row is not valid JSON: ${reason}.`)
  }
}
