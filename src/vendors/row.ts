import type { EventParts } from '../contract/event-text.js'
import { type JsonValue, readJson } from '../json/value.js'
import { decimalOf, type TimeFormat, toMilliseconds } from './time.js'

/** How the rows of another product's export become events and profiles. */
export interface Vendor {
  /** how its export writes times, unless the command says otherwise */
  time: TimeFormat
  /**
   * The event's own properties are copied byte for byte. The other fields of the row become one more property, named `$`
   * and the vendor, so that nothing is lost.
   * @throws RowFault if the row is not an event of this vendor
   * @throws NoEvent if the row is something else that this vendor exports
   */
  parts(row: JsonRow, time: TimeFormat): EventParts
  /**
   * What the row says about a user; undefined if it says nothing.
   * @throws RowFault if the row is about a user but names none, or sets no object
   */
  profile(row: JsonRow): ProfileChange | undefined
  /** Whether the row is only about a user, and not an event. */
  isProfile(row: JsonRow): boolean
}

/** What a row says about a user, whether or not it is also an event. */
export interface ProfileChange {
  distinct_id: string
  /** the exact text of a JSON object: the properties to set; all others stay */
  set: string
}

/** The row is not an event; the message says why. */
export class RowFault extends Error {
  override readonly name = 'RowFault'
}

/** The row was never meant to be an event. */
export class NoEvent extends Error {
  override readonly name = 'NoEvent'
}

/** A JSON object that gives its members' values by name, as the exact texts in the input. */
export class JsonRow {
  /** whether it comes from a table, where every value is a string, and an empty one counts as missing */
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

  /** The exact text of a member's value; undefined if it is missing or null. */
  textOf(name: string): string | undefined {
    const text = this.#object.member(name)?.text
    return text === 'null' || (this.isTable && text === '""') ? undefined : text
  }

  /** @throws RowFault if the member is missing or null */
  requiredText(name: string): string {
    const text = this.textOf(name)
    if (text === undefined) throw new RowFault(`The row has no ${name}.`)
    return text
  }

  /** A string, or a number as the input spells it; undefined if it is missing or null. */
  nameOf(name: string): unknown {
    const value = this.value(name) ?? undefined
    return typeof value === 'number' ? this.textOf(name) : value
  }

  /** As `nameOf`, for what may also be empty: undefined then, and for any other type. */
  filled(name: string): string | undefined {
    const value = this.nameOf(name)
    return typeof value === 'string' && value !== '' ? value : undefined
  }

  /** The object in a member; undefined if it is missing or null, null if it is anything else. */
  rowOf(name: string): JsonRow | null | undefined {
    const member = this.#object.member(name)
    if (!member || member.isNull) return undefined
    return member.isObject ? new JsonRow(member) : null
  }

  /** The elements of the array in a member; undefined if it is missing or null, null if it is anything else. */
  elementsOf(name: string): JsonValue[] | null | undefined {
    const member = this.#object.member(name)
    if (!member || member.isNull) return undefined
    return member.isArray ? member.elements() : null
  }

  /** The text of an object with all members except these. */
  without(names: readonly string[]): string {
    return this.#object.textWithout((name, text) => names.includes(name) || (this.isTable && text === '""'))
  }
}

/**
 * The object that a row holds.
 * @param raw valid UTF-8
 * @param isTable as `JsonRow` has it
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

/** The text of an object, given the texts of its members' values. */
export function objectText(entries: (readonly [name: string, text: string])[]): string {
  return `{${entries.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
}

/**
 * The text of the properties with one more member, which holds the fields of the row that are not in `used`.
 * @throws RowFault if the properties are not an object
 */
export function withRest(row: JsonRow, properties = '{}', name: string, used: readonly string[]): string {
  if (!properties.startsWith('{')) throw new RowFault("The event's properties are not an object.")
  const comma = isEmpty(properties) ? '' : ','
  return `${properties.slice(0, properties.lastIndexOf('}'))}${comma}${JSON.stringify(name)}:${row.without(used)}}`
}

/**
 * @param name of the user
 * @param set the text of the properties to set
 * @throws RowFault if the row names no user, or `set` is not an object
 */
export function profileChange(name: unknown, set = '{}'): ProfileChange {
  if (typeof name !== 'string' || name === '') throw new RowFault('The row names no user.')
  if (!set.startsWith('{')) throw new RowFault("The user's properties are not an object.")
  return { distinct_id: name, set }
}

/** @param object the text of a JSON object */
export function isEmpty(object: string): boolean {
  return /^\{\s*\}$/.test(object)
}

/**
 * Converts a time to milliseconds, as the text of a JSON number. A time that is in milliseconds already is not changed.
 * @param text of a JSON value
 * @throws RowFault if it is not a time in this format
 */
export function timestampText(text: string | undefined, format: TimeFormat): string | undefined {
  if (text === undefined) return undefined
  const isString = text.startsWith('"')
  if (format === 'ms' && !isString) return text
  const content = (isString ? (JSON.parse(text) as string) : text).trim()
  const ms = format === 'ms' ? decimalOf(content) : toMilliseconds(content, format)
  if (ms !== null && (format !== 'iso' || isString)) return String(ms)
  throw new RowFault(`The timestamp ${text.slice(0, 100)} is not ${TIME_WORDS[format]}.`)
}

const TIME_WORDS: Record<TimeFormat, string> = {
  iso: 'an ISO 8601 time',
  s: 'a number of seconds',
  ms: 'a number of milliseconds',
}

/**
 * The text of an object that is written inside a string, as tables and some exports do.
 * @param text of a JSON value; if it is not a string, it is returned unchanged
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
    throw new RowFault(`The row is not valid JSON: ${error instanceof Error ? error.message : error}.`)
  }
}
