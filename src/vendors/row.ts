import { MAX_SCAN_DEPTH } from '../contract/limits.js'
import { TrackBody } from '../contract/schemas.js'
import { compileCheck } from '../contract/validation.js'
import { type Member, members } from '../json/spans.js'
import { type TimeFormat, toMilliseconds } from './time.js'

/** Which fields of a row are those of an event. */
export interface FieldNames {
  event: string
  distinct_id: string
  timestamp: string
  properties: string
}

export const OWN_NAMES: FieldNames = {
  event: 'event',
  distinct_id: 'distinct_id',
  timestamp: 'timestamp',
  properties: 'properties',
}

/** What a row says of an event, before it is checked. */
export interface EventParts {
  event: unknown
  distinct_id: unknown
  /** milliseconds as a JSON number's text; undefined where the row names no time */
  timestamp: string | undefined
  /** the exact text of a valid JSON value */
  properties: string | undefined
}

/** What a row says of a user, whether it is an event as well or not. */
export interface ProfileChange {
  distinct_id: string
  /** the exact text of a JSON object: the properties that are set, others stay */
  set: string
}

/** The row is no event; the message says why. */
export class RowFault extends Error {
  override readonly name = 'RowFault'
}

/** The row is something that is no event and was never meant to be one. */
export class NoEvent extends Error {
  override readonly name = 'NoEvent'
}

/** A JSON object whose members can be taken by their names, as the texts they are. */
export class JsonRow {
  readonly text: string
  /** whether it comes from a table, where every value is a string, and an empty one is missing */
  readonly isTable: boolean
  readonly #values: Record<string, unknown>
  readonly #members: Member[]

  /** @throws RowFault where the text is no JSON object */
  constructor(text: string, isTable = false) {
    this.text = text
    this.isTable = isTable
    const value = parse(text)
    if (!isObject(value)) throw new RowFault('The row is not a JSON object.')
    this.#values = value
    this.#members = members(text)
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#values, name)
  }

  value(name: string): unknown {
    const value = this.has(name) ? this.#values[name] : undefined
    return this.isTable && value === '' ? undefined : value
  }

  /** The text of a member's value; undefined where it is missing or null. */
  textOf(name: string): string | undefined {
    if ((this.value(name) ?? null) === null) return undefined
    const member = this.#members.findLast((candidate) => candidate.name === name)
    return member && this.text.slice(member.start, member.end)
  }

  /** A string, or a number as it is spelled; undefined for what is missing or null. */
  nameOf(name: string): unknown {
    const value = this.value(name) ?? undefined
    return typeof value === 'number' ? this.textOf(name) : value
  }

  /** The text of an object of all members but these. */
  without(names: readonly string[]): string {
    return objectText(
      this.#members
        .filter(({ name }) => !names.includes(name) && (!this.isTable || this.value(name) !== undefined))
        .map(({ name, start, end }) => [name, this.text.slice(start, end)]),
    )
  }
}

/** The text of an object whose members' values are given as their texts. */
export function objectText(entries: (readonly [name: string, text: string])[]): string {
  return `{${entries.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
}

/** The text of an object with one more member behind those that it has. */
export function withMember(object: string, name: string, text: string): string {
  const isEmpty = /^\{\s*\}$/.test(object)
  return `${object.slice(0, object.lastIndexOf('}'))}${isEmpty ? '' : ','}${JSON.stringify(name)}:${text}}`
}

/**
 * A time in the row's own form as the text of a number of milliseconds. One that is milliseconds already stays as it is.
 * @param text of a JSON value
 * @throws RowFault where it is no time of this form
 */
export function timestampText(text: string | undefined, format: TimeFormat): string | undefined {
  if (text === undefined) return undefined
  const isString = text.startsWith('"')
  if (format === 'ms' && !isString) return text
  const content = isString ? (JSON.parse(text) as string) : text
  const ms = toMilliseconds(content.trim(), format)
  if (ms !== null && (format !== 'iso' || isString)) return String(ms)
  throw new RowFault(`The timestamp ${text.slice(0, 100)} is not ${TIME_WORDS[format]}.`)
}

const TIME_WORDS: Record<TimeFormat, string> = {
  iso: 'an ISO 8601 time',
  s: 'a number of seconds',
  ms: 'a number of milliseconds',
}

/** MAX_PROPERTY_DEPTH is a setting of the service, which reports properties that are nested too deeply. */
const check = compileCheck(TrackBody, MAX_SCAN_DEPTH)

/**
 * The event as JSON, for a batch.
 * @throws RowFault where the service would refuse it, in the service's words
 */
export function formatEvent({ event, distinct_id, timestamp, properties = '{}' }: EventParts): string {
  const time = timestamp === undefined ? undefined : parse(timestamp)
  // That they are an object is seen by their beginning, as they are valid JSON.
  const value = { event, distinct_id, timestamp: time, properties: properties.startsWith('{') ? {} : properties }
  const error = check(value)
  if (error) throw new RowFault(error.message.replace(/^\//, ''))
  const names = `{"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(distinct_id)}`
  return `${names}${timestamp === undefined ? '' : `,"timestamp":${timestamp}`},"properties":${properties}}`
}

/**
 * The text of an object that stands in a string, as tables and some exports have it.
 * @param text of a JSON value; one that is no string stays as it is
 * @throws RowFault where the string holds no valid JSON
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
