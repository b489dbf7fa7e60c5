import { EVENT_FIELDS } from '../../contract/schemas.js'
import { EventScan } from '../../model/scan.js'
import { type TimeFormat, toMilliseconds } from '../../vendors/time.js'
import type { VendorName } from '../../vendors/vendors.js'
import type { Row } from './lines.js'
import { FIRST_PLAUSIBLE_MS } from './row-times.js'

/** Which field of a row becomes which field of the event. */
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

/** Fields that have the same name in every input. */
export const FIXED_NAMES = EVENT_FIELDS.filter((name) => !Object.hasOwn(OWN_NAMES, name))

export interface SourceOptions {
  names: FieldNames
  /** the format of timestamps; undefined if the user named none */
  time: TimeFormat | undefined
  from: VendorName | undefined
  /** IANA zone of times without a zone, or of Mixpanel's numeric times; undefined for UTC */
  zone?: string | undefined
  /** event name of rows without one */
  event?: string | undefined
  /** whether rows without a time are rejected, because others have one */
  needsTime?: boolean
}

/** Finds rows that are already valid events and can be sent byte for byte. */
export class NativeRows {
  readonly #isPossible: boolean
  #scan = new EventScan(Buffer.alloc(0))
  #raw: Buffer | null = null

  constructor({ names, time, from }: SourceOptions) {
    const isOwn = Object.entries(OWN_NAMES).every(([field, name]) => names[field as keyof FieldNames] === name)
    this.#isPossible = isOwn && !from && (time === undefined || time === 'ms')
  }

  has({ raw, start, end, isUtf8, table }: Row): boolean {
    if (!this.#isPossible || !isUtf8 || table !== null) return false
    if (raw !== this.#raw) {
      this.#raw = raw
      this.#scan = new EventScan(raw)
    }
    const found = this.#scan.findEnd(start)
    // White space may follow the event, and other fields may have to become the properties.
    return found === end && (!this.#scan.hasOthers || this.#scan.hasProperties)
  }

  /** Whether the row checked last has a time. */
  get hasTimestamp(): boolean {
    return this.#scan.hasTimestamp
  }
}

/** Checks the first timestamp of an input, unless the user named the time format. */
export class FirstTime {
  #isKnown: boolean

  /** @param isBeginning whether the rows start at the beginning of the input */
  constructor({ time, from }: SourceOptions, isBeginning: boolean) {
    this.#isKnown = !isBeginning || time !== undefined || from !== undefined
  }

  /** Whether a time was seen in the expected format, or the command named the format. */
  get isKnown(): boolean {
    return this.#isKnown
  }

  /**
   * @param text of the time of a row
   * @throws Error if it is the first one, and does not look like milliseconds
   */
  see(text: string): void {
    if (this.#isKnown) return
    const content = text.replaceAll('"', '').trim()
    const number = content === '' ? Number.NaN : Number(content)
    const fault = (what: string) => new Error(`The first timestamp of the input is ${text.slice(0, 100)}, ${what}`)
    if (Number.isNaN(number)) {
      throw fault(
        toMilliseconds(content, 'iso') === null
          ? 'which is neither a number nor ISO 8601, such as 2026-11-26T08:00:00Z. Convert the times, or name another field with --map timestamp=FIELD.'
          : 'which is not a number: --time iso reads ISO 8601.',
      )
    }
    if (number < FIRST_PLAUSIBLE_MS) {
      throw fault('which is before 1973 in milliseconds: --time s reads seconds, --time ms keeps it unchanged.')
    }
    this.#isKnown = true
  }
}
