import { formatEvent } from '../../contract/event-text.js'
import { isName, MAX_BATCH } from '../../contract/limits.js'
import { canLink } from '../../contract/user-names.js'
import { type Decoded, type SdkAlias, type SdkChange, withoutRepeatedAliases } from '../../vendors/message.js'
import { type JsonRow, NoEvent, RowFault } from '../../vendors/row.js'
import type { Vendor } from '../../vendors/vendor.js'

/** A change of a profile or alias from a row: an element of a call to `/users/batch`. */
export interface PeopleChange {
  kind: 'change' | 'alias' | 'delete'
  /** the members of its JSON object, without an `insert_id` */
  members: string
  /** the vendor's id, which identifies repetitions, including live ones */
  insertId: string | undefined
}

/** The result of converting a row of an export. */
export interface VendorOutcome {
  /** empty if it only changes profiles or aliases; several for a row that is a visit */
  events: Buffer[]
  /** whether the events have an `insert_id` */
  haveIds: boolean
  /** changes of profiles and aliases, in the order of the row */
  people: PeopleChange[]
}

type ExportOptions = Parameters<Vendor['messages']>[1]

/** Linked pairs of names that are remembered, because exports repeat them with each event. */
const MAX_PAIRS = 100_000

/** Reads rows of another product's export with its decoder for live messages. */
export class VendorRows {
  readonly #vendor: Vendor
  readonly #options: ExportOptions
  readonly #seenAliases = new Set<string>()

  constructor(vendor: Vendor, options: ExportOptions) {
    this.#vendor = vendor
    this.#options = options
  }

  /**
   * @throws RowFault, EventFault if the row cannot be stored
   * @throws NoEvent if the row has nothing to store
   */
  convert(row: JsonRow): VendorOutcome {
    const messages = this.#vendor.messages(row, this.#options)
    const events: Buffer[] = []
    let haveIds = true
    for (const message of messages) {
      if (message.type !== 'event') continue
      const insert_id = isName(message.insertId) ? message.insertId : undefined
      events.push(Buffer.from(formatEvent({ ...message.parts, insert_id })))
      haveIds &&= insert_id !== undefined
    }
    if (events.length > MAX_BATCH) throw new RowFault(`The row has more than ${MAX_BATCH} events.`)
    const hasEvent = events.length > 0
    if (this.#seenAliases.size > MAX_PAIRS) this.#seenAliases.clear()
    // Done last, because an invalid row must not mark its aliases as sent.
    const people = withoutRepeatedAliases(messages, this.#seenAliases).flatMap((message) =>
      changesIn(message, hasEvent),
    )
    if (!hasEvent && people.length === 0) throw new NoEvent('The row contains nothing to store.')
    return { events, haveIds, people }
  }
}

/** @param hasEvent whether the row is also stored as an event; then changes of an anonymous user are dropped */
function changesIn(message: Decoded, hasEvent: boolean): PeopleChange[] {
  switch (message.type) {
    case 'event':
      return []
    case 'change': {
      const isNobody = !message.isGroup && isName(message.distinctId) && !canLink(message.distinctId)
      return isNobody && hasEvent ? [] : [toChange(message)]
    }
    case 'alias':
      return [message.distinctId, message.alias].every((name) => isName(name) && canLink(name))
        ? [toAlias(message)]
        : []
    case 'delete': {
      const members = `"distinct_id":${JSON.stringify(message.distinctId)},"delete":true`
      return [{ kind: 'delete', members, insertId: undefined }]
    }
  }
}

function toChange({ distinctId, identifies, operations, clears, insertId, time }: SdkChange): PeopleChange {
  const isNamed = identifies || (operations.length === 0 && !clears)
  const members = [
    `"distinct_id":${JSON.stringify(distinctId)}`,
    ...(isNamed ? [`"identified":${identifies === true}`] : []),
    ...(clears ? ['"clear":true'] : []),
    ...(operations.length > 0 ? [`"operations":[${operations.join(',')}]`] : []),
    // A change without a time counts as older than all that have one.
    `"timestamp":${time ?? 0}`,
  ]
  return { kind: 'change', members: members.join(','), insertId: isName(insertId) ? insertId : undefined }
}

function toAlias({ distinctId, alias, link }: SdkAlias): PeopleChange {
  const names = `"distinct_id":${JSON.stringify(distinctId)},"alias":${JSON.stringify(alias)}`
  const strength = { inferred: '', said: ',"said":true', merge: ',"merge":true' }[link]
  return { kind: 'alias', members: names + strength, insertId: undefined }
}
