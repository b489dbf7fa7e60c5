/** The text around the events of a batch. Lines between the two become a batch when commas replace their line ends. */
export const BATCH_HEAD: Buffer = Buffer.from('{"events":[')
export const BATCH_TAIL: Buffer = Buffer.from(']}')

/** How many numbers `ScannedBody.places` has for each event. */
export const OFFSETS_PER_EVENT = 4

/** A tracking body that a scan has found to be valid; it stands in for the parsed body. */
export class ScannedBody {
  /** number of events */
  readonly count: number
  /** the body's API key, if any; named as the field is, so that code which reads a parsed body finds it here too */
  readonly apiKey: string | undefined
  /** whether it has fields that the contract does not define */
  readonly hasOthers: boolean
  /**
   * for each event the offsets of its start and end, and of the JSON strings of its distinct_id and its insert_id (0 if it
   * has none). Null if no event has an insert_id.
   */
  readonly offsets: Uint32Array | null
  readonly #keyStart: number

  constructor(
    count: number,
    apiKey: string | undefined,
    keyStart: number,
    hasOthers: boolean,
    places: Uint32Array | null,
  ) {
    this.count = count
    this.apiKey = apiKey
    this.hasOthers = hasOthers
    this.offsets = places
    this.#keyStart = keyStart
  }

  /** Overwrites the API key in the raw body with asterisks, which keeps every other byte in its place. */
  overwriteKey(raw: Buffer): void {
    if (this.apiKey !== undefined) raw.fill('*', this.#keyStart, this.#keyStart + this.apiKey.length)
  }
}
