/** The bytes around the events of a batch. Lines between the two become a batch when commas replace their line ends. */
export const BATCH_HEAD: Buffer = Buffer.from('{"events":[')
export const BATCH_TAIL: Buffer = Buffer.from(']}')
const SPACE = 0x20
/**
 * Begins an entry in which some events have a context. The space is a mark: ClickHouse takes longer to read contexts, and
 * most entries of secret keys have none.
 */
export const CONTEXTS_HEAD: Buffer = Buffer.from(' {"events":[')

/** Whether events of an entry may have contexts. */
export function mayHaveContexts(body: Buffer): boolean {
  return body[0] === SPACE
}

/** The beginning of a batch that consists of some events of another one. */
export function findHead(body: Buffer): Buffer {
  return mayHaveContexts(body) ? CONTEXTS_HEAD : BATCH_HEAD
}

/** How many numbers `ScannedBody.offsets` has for each event. */
export const OFFSETS_PER_EVENT = 4

/** A tracking body that a scan found to be valid; it takes the place of the parsed body. */
export class ScannedBody {
  /** whether it is `{"events":[…]}`, not a single event */
  readonly isBatch: boolean
  /** number of events */
  readonly count: number
  /** the body's API key, if any; has the name of the field, so that code for parsed bodies finds it here too */
  readonly apiKey: string | undefined
  /** whether it has fields that the contract does not define */
  readonly hasOthers: boolean
  /** whether events have an `insert_id` */
  readonly hasIds: boolean
  /** whether events have a `context` */
  readonly hasContexts: boolean
  /**
   * for each event the offsets of its start and end, and of the JSON strings of its distinct_id and its insert_id (0 if
   * it has none). Null for a single event without an insert_id.
   */
  readonly offsets: Uint32Array | null
  /** whether a distinct_id may begin with the prefix of daily visitors; if so, it has to be parsed to know */
  readonly mayNameVisitor: boolean
  /** the offset of the JSON string of the first event's distinct_id */
  readonly firstUser: number
  readonly #keyStart: number

  constructor(
    isBatch: boolean,
    count: number,
    apiKey: string | undefined,
    keyStart: number,
    marks: Pick<ScannedBody, 'hasOthers' | 'hasIds' | 'hasContexts' | 'mayNameVisitor' | 'firstUser'>,
    offsets: Uint32Array | null,
  ) {
    this.isBatch = isBatch
    this.count = count
    this.apiKey = apiKey
    this.hasOthers = marks.hasOthers
    this.hasIds = marks.hasIds
    this.hasContexts = marks.hasContexts
    this.mayNameVisitor = marks.mayNameVisitor
    this.firstUser = marks.firstUser
    this.offsets = offsets
    this.#keyStart = keyStart
  }

  /** Overwrites the API key in the raw body with asterisks, which keeps every other byte in its place. */
  overwriteKey(raw: Buffer): void {
    if (this.apiKey !== undefined) raw.fill('*', this.#keyStart, this.#keyStart + this.apiKey.length)
  }
}
