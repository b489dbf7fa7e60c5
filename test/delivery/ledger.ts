/** The outcome of a call as its client knows it. */
export type Outcome =
  /** the service acknowledged the events */
  | 'answered'
  /** the service said that it stored nothing */
  | 'refused'
  /** there was no response, or one that does not tell */
  | 'unknown'

/** An event that was read back. The producer and the number identify it; the id is from the service. */
export interface Found {
  producer: string
  number: number
  eventId: string
  /** the number of the edit; absent: it was never edited */
  edit?: number
}

/** How many events break each promise, with some of them as examples. */
export interface Verdict {
  /** acknowledged, but not there */
  lost: number
  /** there more than once */
  twice: number
  /** after an event that its producer sent later, or with an id that is not greater */
  disordered: number
  /** there although it was refused or never sent */
  unexpected: number
  /** there with an id other than the one in the response or in an earlier read */
  renamed: number
  /** there without its last acknowledged edit */
  unedited: number
  examples: string[]
}

export const FLAWLESS: Verdict = {
  lost: 0,
  twice: 0,
  disordered: 0,
  unexpected: 0,
  renamed: 0,
  unedited: 0,
  examples: [],
}

const MAX_EXAMPLES = 10
const ANSWERED = 1
const UNKNOWN = 2
const DELETED = 4

/** The events of one producer, with a byte each, so that millions fit into memory. */
interface Account {
  marks: Uint8Array
  length: number
}

/**
 * The invariants of delivery: acknowledged events are there once, in the order in which their producer sent them, with
 * the ids from the responses; refused ones are not there; those without a response are there once or not at all.
 * Producers send one call after the other.
 */
export class Ledger {
  readonly #accounts = new Map<string, Account>()
  readonly #toldIds = new Map<string, string>()
  readonly #edits = new Map<string, number>()

  /** Records the outcome of a call. The last attempt counts, because a repeated call is the same call. */
  note(producer: string, first: number, count: number, outcome: Outcome): void {
    const account = this.#account(producer, first + count)
    const mark = outcome === 'answered' ? ANSWERED : outcome === 'unknown' ? UNKNOWN : 0
    for (let number = first; number < first + count; number++) {
      const before = account.marks[number] ?? 0
      // A refusal says nothing about an earlier attempt whose response was lost.
      account.marks[number] = mark === 0 && before === UNKNOWN ? UNKNOWN : mark
    }
  }

  /** Records the id of an event from a response. */
  noteId(producer: string, number: number, eventId: string): void {
    this.#toldIds.set(nameOf(producer, number), eventId)
  }

  /** The id of an event from a response, if there was one. */
  idOf(producer: string, number: number): string | undefined {
    return this.#toldIds.get(nameOf(producer, number))
  }

  /** Records an acknowledged edit of an event. */
  noteEdit(producer: string, number: number, edit: number): void {
    this.#edits.set(nameOf(producer, number), edit)
  }

  /** Records an acknowledged deletion of an event. */
  noteDeletion(producer: string, number: number): void {
    this.#account(producer, number + 1).marks[number] = DELETED
  }

  /** Ids that responses gave to more than one event, including lost ones. */
  get sharedIds(): string[] {
    const ids = [...this.#toldIds.values()].sort()
    return ids.filter((id, i) => id === ids[i - 1])
  }

  /** The number of acknowledged events. */
  get answered(): number {
    let count = 0
    for (const { marks } of this.#accounts.values()) for (const mark of marks) count += mark & ANSWERED
    return count
  }

  /** Compares the events that are there, in the order in which they are read. */
  async verdict(found: Iterable<Found> | AsyncIterable<Found>): Promise<Verdict> {
    const reading = new Reading(this.#accounts, this.#toldIds, this.#edits, false)
    for await (const event of found) reading.see(event)
    return reading.verdict()
  }

  /** For a walk while events are sent, edited and deleted, which may see earlier versions. */
  liveReading(): Reading {
    return new Reading(this.#accounts, this.#toldIds, this.#edits, true)
  }

  #account(producer: string, length: number): Account {
    let account = this.#accounts.get(producer)
    if (!account) {
      account = { marks: new Uint8Array(1024), length: 0 }
      this.#accounts.set(producer, account)
    }
    if (length > account.marks.length) {
      const marks = new Uint8Array(Math.max(length, 2 * account.marks.length))
      marks.set(account.marks)
      account.marks = marks
    }
    account.length = Math.max(account.length, length)
    return account
  }
}

/** One reading of everything, compared with what was sent. */
export class Reading {
  readonly #accounts: ReadonlyMap<string, Account>
  readonly #toldIds: ReadonlyMap<string, string>
  readonly #edits: ReadonlyMap<string, number>
  readonly #isLive: boolean
  /** a byte for each event that was seen */
  readonly #seen = new Map<string, { marks: Uint8Array; last: number }>()
  readonly #verdict = structuredClone(FLAWLESS)
  #lastId = ''

  constructor(
    accounts: ReadonlyMap<string, Account>,
    toldIds: ReadonlyMap<string, string>,
    edits: ReadonlyMap<string, number>,
    isLive: boolean,
  ) {
    this.#accounts = accounts
    this.#toldIds = toldIds
    this.#edits = edits
    this.#isLive = isLive
  }

  /** The next event, in the order in which it is read. */
  see({ producer, number, eventId, edit = 0 }: Found): void {
    const event = nameOf(producer, number)
    let seen = this.#seen.get(producer)
    if (!seen) {
      seen = { marks: new Uint8Array(1024), last: 0 }
      this.#seen.set(producer, seen)
    }
    if (number >= seen.marks.length) {
      const marks = new Uint8Array(Math.max(number + 1, 2 * seen.marks.length))
      marks.set(seen.marks)
      seen.marks = marks
    }
    if (seen.marks[number]) this.#blame('twice', event)
    if (number < seen.last || eventId <= this.#lastId) this.#blame('disordered', event)
    if ((this.#toldIds.get(event) ?? eventId) !== eventId) this.#blame('renamed', event)
    if (!this.#isLive && edit !== (this.#edits.get(event) ?? 0)) this.#blame('unedited', event)
    seen.marks[number] = 1
    seen.last = number
    this.#lastId = eventId
  }

  /** The result; call it once, after the last event. */
  verdict(): Verdict {
    for (const producer of new Set([...this.#accounts.keys(), ...this.#seen.keys()])) {
      const sent = this.#accounts.get(producer)?.marks ?? new Uint8Array()
      const seen = this.#seen.get(producer)?.marks ?? new Uint8Array()
      for (let number = 0; number < Math.max(sent.length, seen.length); number++) {
        const mark = sent[number] ?? 0
        const maySee = this.#isLive ? ANSWERED | UNKNOWN | DELETED : ANSWERED | UNKNOWN
        if (seen[number] && (mark & maySee) === 0) this.#blame('unexpected', nameOf(producer, number))
        if (!seen[number] && mark === ANSWERED) this.#blame('lost', nameOf(producer, number))
      }
    }
    return this.#verdict
  }

  #blame(fault: Exclude<keyof Verdict, 'examples'>, event: string): void {
    const { examples } = this.#verdict
    this.#verdict[fault]++
    if (examples.length < MAX_EXAMPLES) examples.push(`${event} is ${fault}`)
  }
}

function nameOf(producer: string, number: number): string {
  return `${producer} ${number}`
}
