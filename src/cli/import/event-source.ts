import { isUtf8 } from 'node:buffer'
import { EventFault, type EventParts, formatEvent } from '../../contract/event-text.js'
import { EventScan } from '../../model/event-scan.js'
import {
  type JsonRow,
  NoEvent,
  type ProfileChange,
  RowFault,
  readRow,
  timestampText,
  unquoted,
  type Vendor,
} from '../../vendors/row.js'
import type { TimeFormat } from '../../vendors/time.js'
import { VENDORS, type VendorName } from '../../vendors/vendors.js'
import type { Row } from './lines.js'

/** Which fields of a row are those of the event. */
export interface FieldNames {
  event: string
  distinct_id: string
  timestamp: string
  properties: string
}

/** The field names of the API, which are the default. */
export const OWN_NAMES: FieldNames = {
  event: 'event',
  distinct_id: 'distinct_id',
  timestamp: 'timestamp',
  properties: 'properties',
}

/** Has the same name in every input. */
const INSERT_ID = 'insert_id'

export interface SourceOptions {
  names: FieldNames
  /** how times are written; undefined if the command does not say */
  time: TimeFormat | undefined
  from: VendorName | undefined
}

/**
 * What became of a row: `verbatim` if it is sent as it is, else the bytes of its event, what it says about a user, or why
 * it is rejected. `skipped` rows were never meant to be events.
 */
export type Outcome =
  | { event: Buffer; profile?: ProfileChange | undefined }
  | { event: null; profile: ProfileChange }
  | { fault: string }
  | 'verbatim'
  | 'skipped'

/** As milliseconds, a time before 1973; as seconds, one in the year 5138. */
const FIRST_PLAUSIBLE_MS = 1e11

/**
 * Turns rows into events. A row that is a valid event already is sent byte for byte and never parsed. For any other row the
 * field names decide; if it has no field for the properties, all its other fields become the properties.
 */
export class EventSource {
  readonly #options: SourceOptions
  readonly #isNative: boolean
  #scan = new EventScan(Buffer.alloc(0))
  #raw: Buffer | null = null
  #isTimeKnown: boolean

  /** @param isBeginning whether the first row is the first one of the input */
  constructor(options: SourceOptions, isBeginning: boolean) {
    const { names, time, from } = options
    this.#options = options
    this.#isTimeKnown = !isBeginning || time !== undefined || from !== undefined
    const isOwn = Object.entries(OWN_NAMES).every(([field, name]) => names[field as keyof FieldNames] === name)
    this.#isNative = isOwn && !from && (time === undefined || time === 'ms')
  }

  /** whether a time was seen in the expected format, or the command named the format */
  get isTimeKnown(): boolean {
    return this.#isTimeKnown
  }

  /** Whether a row is sent as it is. */
  isVerbatim(row: Row): boolean {
    return this.#isNative && row.isUtf8 && row.table === null && this.#isEvent(row)
  }

  /** @throws Error if the format of the input's times cannot be determined */
  take(row: Row): Outcome {
    if (this.isVerbatim(row)) {
      if (!this.#isTimeKnown && this.#scan.hasTimestamp) this.#parts(this.#json(row), 'ms')
      return 'verbatim'
    }
    try {
      const json = this.#json(row)
      const { from, time = 'ms' } = this.#options
      if (from) return this.#fromVendor(json, VENDORS[from])
      return { event: Buffer.from(formatEvent(this.#parts(json, time))) }
    } catch (error) {
      if (error instanceof RowFault || error instanceof EventFault) return { fault: error.message }
      if (error instanceof NoEvent) return 'skipped'
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
    // White space may follow the event, and other fields may have to become the properties.
    return found === end && (!this.#scan.hasOthers || this.#scan.hasProperties)
  }

  #json({ raw, start, end, table, fault, isUtf8: isKnown }: Row): JsonRow {
    const bytes = raw.subarray(start, end)
    if (!isKnown && !isUtf8(bytes)) throw new RowFault('The row is not valid UTF-8.')
    if (fault !== null) throw new RowFault(fault)
    return table === null ? readRow(bytes) : readRow(Buffer.from(table), true)
  }

  #parts(row: JsonRow, format: TimeFormat): EventParts {
    const { names } = this.#options
    const written = row.textOf(names.timestamp)
    if (written !== undefined && !this.#isTimeKnown) {
      requireMilliseconds(written)
      this.#isTimeKnown = true
    }
    const properties = row.textOf(names.properties)
    return {
      event: this.#name(row, names.event, OWN_NAMES.event),
      distinct_id: this.#name(row, names.distinct_id, OWN_NAMES.distinct_id),
      timestamp: timestampText(written, format),
      insert_id: row.nameOf(INSERT_ID),
      properties: row.has(names.properties)
        ? row.isTable
          ? unquoted(properties)
          : properties
        : row.without([names.event, names.distinct_id, names.timestamp, INSERT_ID]),
    }
  }

  /** A field that the command maps may hold a number, as ids do; one with the API's own name must be a string. */
  #name(row: JsonRow, name: string, own: string): unknown {
    return name === own ? row.value(name) : row.nameOf(name)
  }
}

/**
 * @param text of the first time in the input, if the command does not say how times are written
 * @throws Error if it does not look like milliseconds
 */
function requireMilliseconds(text: string): void {
  const content = text.replaceAll('"', '')
  const number = Number(content)
  const fault = (what: string) => new Error(`The first timestamp of the input is ${text.slice(0, 100)}, ${what}`)
  if (Number.isNaN(number)) throw fault('which is not a number: --time iso reads ISO 8601.')
  if (number < FIRST_PLAUSIBLE_MS) {
    throw fault('which is before 1973 in milliseconds: --time s reads seconds, --time ms takes it as it is.')
  }
}
