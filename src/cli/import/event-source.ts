import { isUtf8 } from 'node:buffer'
import { EventFault, type EventParts, formatContext, formatEvent } from '../../contract/event-text.js'
import { type JsonRow, NoEvent, RowFault, readRow, unquoted } from '../../vendors/row.js'
import type { TimeFormat } from '../../vendors/time.js'
import { VENDORS } from '../../vendors/vendors.js'
import type { Row } from './lines.js'
import { toUtc } from './local-time.js'
import { FIXED_NAMES, type FirstTime, NativeRows, OWN_NAMES, type SourceOptions } from './native-rows.js'
import { timeText } from './row-times.js'
import { type VendorOutcome, VendorRows } from './vendor-rows.js'

/**
 * The result for a row: `verbatim` if it is sent unchanged, otherwise its events and its changes of profiles, or why it
 * is rejected. `skipped` rows are not meant to be events.
 */
export type Outcome = VendorOutcome | { fault: string } | 'verbatim' | 'skipped'

/**
 * Turns rows into events. A row that is already a valid event is sent byte for byte and never parsed. Other rows are
 * mapped by their field names; without a field for the properties, all remaining fields become the properties.
 */
export class EventSource {
  readonly #options: SourceOptions
  readonly #native: NativeRows
  readonly #firstTime: FirstTime
  readonly #vendor: VendorRows | null

  constructor(options: SourceOptions, firstTime: FirstTime) {
    this.#options = options
    this.#native = new NativeRows(options)
    this.#firstTime = firstTime
    const { from, time, zone } = options
    const inZone = zone === undefined ? undefined : (ms: number) => toUtc(ms, zone)
    this.#vendor = from ? new VendorRows(VENDORS[from], { time, toUtc: inZone }) : null
  }

  /** @throws Error if the format of the input's times cannot be determined */
  convert(row: Row): Outcome {
    if (row.isEmpty) return 'skipped'
    if (this.#native.has(row)) {
      if (!this.#firstTime.isKnown && this.#native.hasTimestamp) this.#parts(this.#json(row), 'ms')
      return 'verbatim'
    }
    try {
      const json = this.#json(row)
      if (this.#vendor) return this.#vendor.convert(json)
      const parts = this.#parts(json, this.#options.time ?? 'ms')
      return { events: [Buffer.from(formatEvent(parts))], haveIds: (parts.insert_id ?? null) !== null, people: [] }
    } catch (error) {
      if (error instanceof RowFault || error instanceof EventFault) return { fault: error.message }
      if (error instanceof NoEvent) return 'skipped'
      throw error
    }
  }

  #json({ raw, start, end, table, fault, isUtf8: isKnown }: Row): JsonRow {
    const bytes = raw.subarray(start, end)
    if (!isKnown && !isUtf8(bytes)) throw new RowFault('The row is not valid UTF-8.')
    if (fault !== null) throw new RowFault(fault)
    return table === null ? readRow(bytes) : readRow(Buffer.from(table), true)
  }

  #parts(row: JsonRow, format: TimeFormat): EventParts {
    const { names, zone, needsTime } = this.#options
    const written = row.readText(names.timestamp)
    if (written !== undefined) this.#firstTime.see(written)
    else if (needsTime)
      throw new RowFault(`The row has no time, in ${JSON.stringify(names.timestamp)}, though others have one.`)
    return {
      event: this.#event(row),
      distinct_id: this.#name(row, names.distinct_id, OWN_NAMES.distinct_id),
      timestamp: written === undefined ? undefined : timeText(written, format, zone, row.isTable),
      insert_id: row.readName('insert_id'),
      session_id: row.readName('session_id'),
      ...this.#ownData(row),
    }
  }

  /**
   * The properties and the context of a row. Without a field for the properties, a `context` of any other type becomes
   * a property.
   */
  #ownData(row: JsonRow): Pick<EventParts, 'properties' | 'context'> {
    const { names } = this.#options
    if (row.has(names.properties)) {
      const properties = row.readText(names.properties)
      return { properties: row.isTable ? unquoted(properties) : properties, context: readContext(row) }
    }
    const used = [names.event, names.distinct_id, names.timestamp, ...FIXED_NAMES]
    try {
      return { properties: row.without(used), context: readContext(row) }
    } catch (error) {
      if (!(error instanceof RowFault || error instanceof EventFault)) throw error
      return { properties: row.without(used.filter((name) => name !== 'context')) }
    }
  }

  /** Returns the event's name, or the default of `--event`. */
  #event(row: JsonRow): unknown {
    const name = this.#name(row, this.#options.names.event, OWN_NAMES.event)
    const isMissing = name === undefined || name === null || name === ''
    return isMissing ? (this.#options.event ?? name) : name
  }

  /** A field that the options map may hold a number, such as an id; one with the API's own name must be a string. */
  #name(row: JsonRow, name: string, own: string): unknown {
    return name === own ? row.value(name) : row.readName(name)
  }
}

/** @throws RowFault, EventFault if it is not a valid context */
function readContext(row: JsonRow): string | undefined {
  const text = row.readObject('context')
  return text === undefined ? undefined : formatContext(JSON.parse(text))
}
