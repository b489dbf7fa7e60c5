/** The bytes around the events of a batch. Lines between the two become a batch when commas replace their line ends. */
export const BATCH_HEAD: Buffer = Buffer.from('{"events":[')
export const BATCH_TAIL: Buffer = Buffer.from(']}')

/** How many numbers `ScannedBody.offsets` has for each event. */
export const OFFSETS_PER_EVENT = 4

/** A tracking body that a scan found to be valid; it takes the place of the parsed body. */
export class ScannedBody {
  /** number of events */
  readonly count: number
  /** the body's API key, if any; has the name of the field, so that code for parsed bodies finds it here too */
  readonly apiKey: string | undefined
  /** whether it has fields that the contract does not define */
  readonly hasOthers: boolean
  /**
   * for each event the offsets of its start and end, and of the JSON strings of its distinct_id and its insert_id (0 if
   * it has none). Null if no event has an insert_id.
   */
  readonly offsets: Uint32Array | null
  /** whether a distinct_id may begin with the prefix of daily visitors; if so, it has to be parsed to know */
  readonly mayNameVisitor: boolean
  readonly #keyStart: number

  constructor(
    count: number,
    apiKey: string | undefined,
    keyStart: number,
    hasOthers: boolean,
    offsets: Uint32Array | null,
    mayNameVisitor: boolean,
  ) {
    this.count = count
    this.apiKey = apiKey
    this.hasOthers = hasOthers
    this.offsets = offsets
    this.mayNameVisitor = mayNameVisitor
    this.#keyStart = keyStart
  }

  /** Overwrites the API key in the raw body with asterisks, which keeps every other byte in its place. */
  overwriteKey(raw: Buffer): void {
    if (this.apiKey !== undefined) raw.fill('*', this.#keyStart, this.#keyStart + this.apiKey.length)
  }
}
