import { isUtf8 } from 'node:buffer'
import { EventScan } from '../../model/scan.js'
import {
  type EventParts,
  type FieldNames,
  formatEvent,
  JsonRow,
  NoEvent,
  OWN_NAMES,
  type ProfileChange,
  RowFault,
  timestampText,
  unquoted,
} from '../../vendors/row.js'
import type { TimeFormat } from '../../vendors/time.js'
import { VENDORS, type Vendor, type VendorName } from '../../vendors/vendors.js'
import type { Row } from './lines.js'

export interface SourceOptions {
  names: FieldNames
  /** how times are written; undefined where the command does not say it */
  time: TimeFormat | undefined
  from: VendorName | undefined
}

/**
 * What became of a row: the bytes of its event, `kept` where they are the row's own, what it says of a user, why it is
 * neither, or none at all.
 */
export type Outcome =
  | { event: Buffer; profile?: ProfileChange | undefined }
  | { event: null; profile: ProfileChange }
  | { fault: string }
  | 'kept'
  | 'passed over'

/** Before 1973 in milliseconds, in the year 5138 in seconds. */
const FIRST_PLAUSIBLE_MS = 1e11

/**
 * Makes events of rows. One that is an event as it stands is sent as it stands, and never parsed. Otherwise the fields
 * are taken as the names say; where a row has no field for the properties, all its other fields are the properties.
 */
export class EventSource {
  readonly #options: SourceOptions
  readonly #isNative: boolean
  #scan = new EventScan(Buffer.alloc(0))
  #raw: Buffer | null = null
  /** whether a time was seen, and its form was the one that was said or is the usual one */
  #isTimeKnown: boolean

  /** @param isBeginning whether the first row is the first of the input */
  constructor(options: SourceOptions, isBeginning: boolean) {
    const { names, time, from } = options
    this.#options = options
    this.#isTimeKnown = !isBeginning || time !== undefined || from !== undefined
    const isOwn = Object.entries(OWN_NAMES).every(([field, name]) => names[field as keyof FieldNames] === name)
    this.#isNative = isOwn && !from && (time === undefined || time === 'ms')
  }

  /** @throws Error where it cannot be known in which form the input writes its times */
  take(row: Row): Outcome {
    if (this.#isNative && row.isUtf8 && row.table === null && this.#isEvent(row)) {
      if (!this.#isTimeKnown && this.#scan.hasTimestamp) this.#parts(this.#json(row), 'ms')
      return 'kept'
    }
    try {
      const json = this.#json(row)
      const { from, time = 'ms' } = this.#options
      if (from) return this.#fromVendor(json, VENDORS[from])
      return { event: Buffer.from(formatEvent(this.#parts(json, time))) }
    } catch (error) {
      if (error instanceof RowFault) return { fault: error.message }
      if (error instanceof NoEvent) return 'passed over'
      throw error
    }
  }

  #fromVendor(row: JsonRow, vendor: Vendor): Outcome {
    const profile = vendor.profile(row)
    if (profile && vendor.isProfile(row)) return { event: null, profile }
    return { event: Buffer.from(formatEvent(vendor.parts(row, this.#options.time ?? vendor.time))), profile }
  }

  #isEvent({ raw, start, end }: Row): boolean {
    if (raw !== this.#raw) {
      this.#raw = raw
      this.#scan = new EventScan(raw)
    }
    const found = this.#scan.endOf(start)
    // Behind it there may be white space, and other fields may have to become the properties.
    return found === end && (!this.#scan.hasOthers || this.#scan.hasProperties)
  }

  #json({ raw, start, end, table, fault, isUtf8: isKnown }: Row): JsonRow {
    if (!isKnown && !isUtf8(raw.subarray(start, end))) throw new RowFault('The row is not valid UTF-8.')
    if (fault !== null) throw new RowFault(fault)
    return table === null ? new JsonRow(raw.toString('utf8', start, end)) : new JsonRow(table, true)
  }

  #parts(row: JsonRow, format: TimeFormat): EventParts {
    const { names } = this.#options
    const written = row.textOf(names.timestamp)
    if (written !== undefined && !this.#isTimeKnown) {
      askForTime(written)
      this.#isTimeKnown = true
    }
    const properties = row.textOf(names.properties)
    return {
      event: this.#name(row, names.event, OWN_NAMES.event),
      distinct_id: this.#name(row, names.distinct_id, OWN_NAMES.distinct_id),
      timestamp: timestampText(written, format),
      properties: row.has(names.properties)
        ? row.isTable
          ? unquoted(properties)
          : properties
        : row.without([names.event, names.distinct_id, names.timestamp]),
    }
  }

  /** A field that the command names may hold a number, as ids do; one of the contract's own is held to the contract. */
  #name(row: JsonRow, name: string, own: string): unknown {
    return name === own ? row.value(name) : row.nameOf(name)
  }
}

/** @param text of the first time in the input, which the command says nothing of */
function askForTime(text: string): void {
  const content = text.replaceAll('"', '')
  const number = Number(content)
  const says = (what: string) => new Error(`The first timestamp of the input is ${text.slice(0, 100)}, ${what}`)
  if (Number.isNaN(number)) throw says('which is not a number: --time iso reads ISO 8601.')
  if (number < FIRST_PLAUSIBLE_MS) {
    throw says('which is before 1973 in milliseconds: --time s reads seconds, --time ms takes it as it is.')
  }
}
