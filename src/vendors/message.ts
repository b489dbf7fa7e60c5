import { createHash } from 'node:crypto'
import type { EventParts } from '../contract/event-text.js'
import { isName } from '../contract/limits.js'
import { ANONYMOUS } from '../contract/user-names.js'
import { withoutMembers } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import type { LinkStrength } from '../model/alias.js'
import type { MessageSource } from '../model/request-context.js'
import { FieldFault, JsonRow, RowFault } from './row.js'

/**
 * A message of a request, in the request's order. The texts of properties are what the SDK sent, without the members
 * that contain the request's key.
 */
export type SdkMessage = (SdkEvent | SdkChange | SdkAlias | SdkDelete | SdkFault) & {
  /** index of its element in the request */
  index?: number
}

export interface SdkEvent {
  type: 'event'
  parts: EventParts
  /** identifies repetitions; undefined if the SDK sent none */
  insertId: string | undefined
  /** what the message says about its sender; absent in an export, which says nothing about its own */
  source?: MessageSource
}

/** A change of a profile. */
export interface SdkChange {
  type: 'change'
  /** the user, or a group's profile as `groupName` names it */
  distinctId: string
  /** whether this is a group's profile; users may not have such names */
  isGroup?: boolean
  /** whether the message identifies the user from then on */
  identifies?: boolean
  /** operations as in `/users/profile`, applied in order; empty to only create the profile */
  operations: readonly string[]
  /** whether all properties are removed before the operations apply */
  clears?: boolean
  /** identifies repetitions; undefined if the SDK sent none */
  insertId: string | undefined
  /** time of the message, in epoch ms; if unknown, the change counts as older than any with a time */
  time?: number | undefined
}

/** Makes `alias` another name of `distinctId`, which is an identified user. */
export interface SdkAlias {
  type: 'alias'
  distinctId: string
  alias: string
  link: LinkStrength
}

/** A message that cannot be stored; it becomes a dead letter, and the others of its request are stored. */
interface SdkFault {
  type: 'fault'
  /** text of the message as it was sent, without the key */
  text: string
  /** why it cannot be stored; may quote the message */
  reason: string
  /** the field at fault, if there is one, by its name in `/track` or in the vendor's API */
  field?: string | undefined
  isMissing?: boolean
  /** insert_id of the message, if it has one */
  insertId?: string | undefined
}

/** The context of a request that a decoder needs in addition to its body. */
export interface SdkRequest {
  /** the key of the request, which must not be stored */
  key: string
  /** epoch ms, read once */
  receivedAt: number
  /** whether a text is another key of the same project, which a message may contain; if missing, no text is */
  isOwnKey?(text: string): boolean
  /** returns a header by its name in lower case; the last value if it was repeated */
  header(name: string): string | undefined
  /** fields of the query, or of the form that contained the body */
  fields: ReadonlyMap<string, string>
}

/** Deletes the profile; needs a secret key. */
interface SdkDelete {
  type: 'delete'
  distinctId: string
  /** see `SdkChange` */
  isGroup?: boolean
}

/** The meaning of a message: several of these, in the order in which the vendor would apply them. */
export type Decoded = SdkEvent | SdkChange | SdkAlias | SdkDelete

/** Makes the alias of a message; none if there is only one name, or one of them is anonymous. */
export function makeAlias(
  distinctId: string | undefined,
  alias: string | undefined,
  link: LinkStrength,
): [SdkAlias] | [] {
  const areTwo = distinctId !== undefined && alias !== undefined && distinctId !== alias
  if (!areTwo || distinctId === ANONYMOUS || alias === ANONYMOUS) return []
  return [{ type: 'alias', distinctId, alias, link }]
}

/**
 * Removes aliases that were seen before, because some vendors link the device and the user in each event.
 * @param said the pairs seen so far; the pairs of these messages are added
 */
export function withoutRepeatedAliases<T extends { type: string }>(messages: T[], said = new Set<string>()): T[] {
  return messages.filter((message) => {
    if (!isAlias(message)) return true
    const pair = JSON.stringify([message.distinctId, message.alias, message.link])
    return !said.has(pair) && said.add(pair)
  })
}

function isAlias(message: { type: string }): message is SdkAlias {
  return message.type === 'alias'
}

/** Maximum length of an insert_id, in characters. */
const MAX_ID = 255

/**
 * Makes an insert_id from parts that together identify an event. A long id is replaced by its digest, and so is one
 * with a colon after the first part, because other parts could give the same id.
 */
export function makeInsertId(...parts: string[]): string {
  const isUnique = parts.slice(1).every((part) => !part.includes(':'))
  const id = isUnique ? parts.join(':') : JSON.stringify(parts)
  return isUnique && id.length <= MAX_ID ? id : createHash('sha256').update(id).digest('hex')
}

/**
 * Reads a session id: a string, or a number as the input spells it. One that cannot be stored counts as missing, because
 * the event matters more than its session.
 */
export function readSessionId(row: JsonRow | undefined, name: string): string | undefined {
  const id = row?.readNonEmpty(name)
  return isName(id) ? id : undefined
}

/** The values with which vendors' SDKs refer to the address of the request. */
const OF_REQUEST = new Set<unknown>([true, 1, '1', '$remote'])

/**
 * Reads the address of a sender. Null: with 0 or false, the sender asks us not to use any. Undefined: use the address
 * of the request.
 */
export function readAddress(value: unknown): string | null | undefined {
  if (value === undefined || value === null || OF_REQUEST.has(value)) return undefined
  return typeof value === 'string' && value !== '' && value !== '0' && value !== 'false' ? value : null
}

/** Length of an escape such as `\\u0000`. */
const ESCAPE_LENGTH = 6

/** Removes the members that contain the request's key from the text of an object, however the key is escaped. */
export function withoutKey(object: string, key: string): string {
  const maxLength = ESCAPE_LENGTH * key.length + 2
  const isKey = (text: string) => text.startsWith('"') && text.length <= maxLength && JSON.parse(text) === key
  const mayHold = object.includes(key) || object.includes('\\')
  return mayHold ? withoutMembers(object, (_name, value) => isKey(value)) : object
}

/**
 * Maximum messages of a request; no vendor accepts more than 2500. A limit is needed because a message of two bytes
 * can become a fault many times as long.
 */
export const MAX_MESSAGES = 20_000

/** Also thrown for too many lines. SDKs respond to a 413 by sending smaller requests. */
export class TooManyMessagesError extends Error {
  override readonly name = 'TooManyMessagesError'

  constructor() {
    super(`The request has over ${MAX_MESSAGES} messages. Send fewer.`)
  }
}

/** Reason for a message that failed in an unexpected way. */
const UNREADABLE = 'The message cannot be read.'

/** The messages of a call that takes one or an array of them. */
export function listMessages(json: JsonValue): JsonValue[] {
  return json.isArray ? json.elements() : [json]
}

/**
 * Decodes each of these values; an invalid one becomes a fault and does not affect the others.
 * @throws TooManyMessagesError
 */
export function decodeEach(
  values: readonly JsonValue[],
  { key }: SdkRequest,
  read: (row: JsonRow) => SdkMessage[],
): SdkMessage[] {
  if (values.length > MAX_MESSAGES) throw new TooManyMessagesError()
  const all: SdkMessage[] = []
  const withoutIt = keyRemover(key)
  for (const [index, value] of values.entries()) {
    let row: JsonRow | undefined
    try {
      row = new JsonRow(value)
      for (const message of read(row)) {
        message.index = index
        all.push(message)
      }
    } catch (error) {
      if (error instanceof TooManyMessagesError) throw error
      const { field, isMissing } = error instanceof FieldFault ? error : { field: undefined, isMissing: false }
      const reason = error instanceof RowFault ? withoutPieces(withoutIt(error.message), key) : UNREADABLE
      all.push({
        type: 'fault',
        text: withoutIt(value.text),
        reason,
        field,
        isMissing,
        insertId: row && idIn(row),
        index,
      })
    }
  }
  return all
}

function idIn(row: JsonRow): string | undefined {
  return row.readNonEmpty('uuid') ?? row.readNonEmpty('messageId') ?? row.readNonEmpty('insert_id')
}

/** Backslashes before an escape: a string inside a string doubles them. */
const MAX_BACKSLASHES = 8

/** Matches any generated key, because a message may contain a key of a project other than the request's. */
const ANY_KEY = /(?<![\w-])[sprw]k_[\w-]{43}(?![\w-])/g

/**
 * Returns a function that removes a key from JSON texts wherever it occurs, however it is escaped, and also unescaped
 * generated keys.
 */
function keyRemover(key: string): (text: string) => string {
  let spelled: RegExp | undefined
  return (text) => {
    const others = text.replaceAll(key, '').replace(ANY_KEY, '')
    if (!others.includes('\\')) return others
    spelled ??= new RegExp(Array.from({ length: key.length }, (_, at) => spellings(key, at)).join(''), 'g')
    return others.replace(spelled, '')
  }
}

/** Characters of a key that may be quoted: a part of a text may have been cut off in the middle of the key. */
const PIECE_LENGTH = 8
const ESCAPES = /\\+u([\da-f]{4})/gi

/** Removes pieces of a key from the reason of a fault, which quotes the message in part. */
function withoutPieces(reason: string, key: string): string {
  const text = reason.replace(ESCAPES, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
  let kept = ''
  let end = 0
  for (let at = 0; at + PIECE_LENGTH <= text.length; at++) {
    if (!key.includes(text.slice(at, at + PIECE_LENGTH))) continue
    kept += text.slice(end, Math.max(at, end))
    end = at + PIECE_LENGTH
  }
  return end === 0 ? reason : kept + text.slice(end)
}

/** Makes a pattern that matches every spelling of a character in JSON, including strings inside strings. */
function spellings(text: string, at: number): string {
  const code = text.charCodeAt(at).toString(16).padStart(4, '0')
  const digits = code.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)
  const backslashes = `\\\\{1,${MAX_BACKSLASHES}}`
  const itself = `\\u${code}`
  const isEscapable = /["\\/]/.test(text.charAt(at))
  // Longest first, because a backslash may begin any of them.
  return `(?:${backslashes}u${digits}|${isEscapable ? `${backslashes}${itself}|` : ''}${itself})`
}
