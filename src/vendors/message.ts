import { createHash } from 'node:crypto'
import type { EventParts } from '../contract/event-text.js'
import { withoutMembers } from '../json/texts.js'
import type { JsonValue } from '../json/value.js'
import { ANONYMOUS } from '../model/user-names.js'
import { FieldFault, JsonRow, RowFault } from './row.js'

/**
 * What an SDK says in one request, in the order in which it says it. Texts of properties are those that the SDK sent; only
 * the members that hold the request's key are cut out.
 */
export type SdkMessage = (SdkEvent | SdkChange | SdkAlias | SdkDelete | SdkFault) & {
  /** of the element of the request that it comes from */
  index?: number
}

export interface SdkEvent {
  type: 'event'
  parts: EventParts
  /** by which a repetition is known; undefined if the SDK gives none */
  insertId: string | undefined
}

/** A change of a profile. */
export interface SdkChange {
  type: 'change'
  /** of the user, or the name of the profile of a group, as `groupName` makes it */
  distinctId: string
  /** whether the profile is that of a group; a user may not have its name */
  isGroup?: boolean
  /** whether the message says who somebody is: from then on the user is an identified one */
  identifies?: boolean
  /** each as `/users/profile` takes it, applied one after the other; none to make sure that the profile exists */
  operations: readonly string[]
  /** whether all properties go before the operations apply */
  clears?: boolean
  /** by which a repetition is known; undefined if the SDK gives none */
  insertId: string | undefined
  /** of the message, in epoch ms; undefined where nothing says it: then the change is older than all that has a time */
  time?: number | undefined
}

/** From now on, `alias` is another name of `distinctId`, which is a user that was identified. */
export interface SdkAlias {
  type: 'alias'
  distinctId: string
  alias: string
  link: LinkStrength
}

/**
 * How much a message that links two names knows. `inferred`: an SDK identified somebody and sent the earlier id along;
 * it links only a name that is not an identified user itself. `said`: the program called the SDK's alias function; it
 * may link either name, but never two identified users. `merge`: the program asked to make two users one, which takes a
 * secret key; with another key it is as `said`.
 */
export type LinkStrength = 'inferred' | 'said' | 'merge'

/** A message that cannot be stored; it becomes a dead letter, and the others of its request are stored. */
interface SdkFault {
  type: 'fault'
  /** of the message, as it came but for the key */
  text: string
  /** why it is none; may quote it */
  reason: string
  /** at fault, where one is, by the name that `/track` or the vendor has for it */
  field?: string | undefined
  isMissing?: boolean
  /** of the message, if it has one */
  insertId?: string | undefined
}

/** What a decoder knows of a request besides its text. */
export interface SdkRequest {
  /** the key of the request, which must not be stored */
  key: string
  /** epoch ms, read once */
  receivedAt: number
  /** whether a text is a key of the project, as another one than the request's may be in a message; not if absent */
  isOwnKey?(text: string): boolean
  /** by name, in lower case; the last value of a header that came several times */
  header(name: string): string | undefined
  /** the fields of the query, or of the form that held the text */
  fields: ReadonlyMap<string, string>
}

/** The profile is to be deleted; done for a secret key only. */
interface SdkDelete {
  type: 'delete'
  distinctId: string
  /** as in `SdkChange` */
  isGroup?: boolean
}

/** What one message says, in the order in which the vendor would apply it. */
export type Decoded = SdkEvent | SdkChange | SdkAlias | SdkDelete

/** The alias that a message makes; none if it gives no other name, or one of the two is nobody's. */
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
 * The messages without the aliases that were said before: some vendors say in each event whose device it comes from.
 * @param said the pairs so far, to which those of these messages are added
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

/** The most characters of an insert_id. */
const MAX_ID = 255

/**
 * An id of several parts, all of which make an event the same. A long one is replaced by its digest, and so is one with a
 * colon behind the first part, which other parts would give as well.
 */
export function makeInsertId(...parts: string[]): string {
  const isUnique = parts.slice(1).every((part) => !part.includes(':'))
  const id = isUnique ? parts.join(':') : JSON.stringify(parts)
  return isUnique && id.length <= MAX_ID ? id : createHash('sha256').update(id).digest('hex')
}

/** Characters of `\\u0000`. */
const ESCAPE_LENGTH = 6

/** The text of an object without the members that hold the request's key, however they spell it. */
export function withoutKey(object: string, key: string): string {
  const most = ESCAPE_LENGTH * key.length + 2
  const isKey = (text: string) => text.startsWith('"') && text.length <= most && JSON.parse(text) === key
  const mayHold = object.includes(key) || object.includes('\\')
  return mayHold ? withoutMembers(object, (_name, value) => isKey(value)) : object
}

/**
 * Messages of a request; no vendor takes more than 2500. A message of two bytes can become a fault that is many times as
 * long.
 */
export const MAX_MESSAGES = 20_000

/** Thrown for too many lines, too. SDKs respond to a 413 by sending less at once. */
export class TooManyMessagesError extends Error {
  override readonly name = 'TooManyMessagesError'

  constructor() {
    super(`The request has over ${MAX_MESSAGES} messages. Send fewer.`)
  }
}

/** Why a message cannot be stored if nobody foresaw it. */
const UNREADABLE = 'The message cannot be read.'

/**
 * The messages in each of these values; one that is at fault becomes a fault, and costs the others nothing.
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
      const reason = error instanceof RowFault ? withoutIt(error.message) : UNREADABLE
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

/** Cuts a key out of JSON texts wherever it stands, however it is spelled. */
function keyRemover(key: string): (text: string) => string {
  let spelled: RegExp | undefined
  return (text) => {
    if (!text.includes('\\')) return text.replaceAll(key, '')
    spelled ??= new RegExp(Array.from({ length: key.length }, (_, at) => spellings(key, at)).join(''), 'g')
    return text.replace(spelled, '')
  }
}

/** An expression for all that a character of a text can be in JSON, also within strings of strings. */
function spellings(text: string, at: number): string {
  const code = text.charCodeAt(at).toString(16).padStart(4, '0')
  const digits = code.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)
  const backslashes = `\\\\{1,${MAX_BACKSLASHES}}`
  const itself = `\\u${code}`
  const isEscapable = /["\\/]/.test(text.charAt(at))
  // The longest first: a backslash may begin any of the others.
  return `(?:${backslashes}u${digits}|${isEscapable ? `${backslashes}${itself}|` : ''}${itself})`
}
