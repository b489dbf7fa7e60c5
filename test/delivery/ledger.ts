/** What became of a call, as its client knows it. */
export type Outcome =
  /** the service said that it has the events */
  | 'answered'
  /** the service said that it stored nothing */
  | 'refused'
  /** there was no answer, or one that leaves it open */
  | 'unknown'

/** An event as it is read back: its producer and number are what names it, its id is what the service named it. */
export interface Found {
  producer: string
  number: number
  eventId: string
  /** which edit of the event this is; absent: it was never edited */
  edit?: number
}

/** How many events break each promise, with some of them as examples. */
export interface Verdict {
  /** answered and not there */
  lost: number
  /** there more than once */
  twice: number
  /** there after one that its producer sent later, or with an id that does not rise */
  disordered: number
  /** there though it was refused or never sent */
  unexpected: number
  /** there under another id than it was answered with, or than it was read with before */
  renamed: number
  /** there without the last edit that was answered */
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

/** What one producer sent, a byte for each event, so that many millions fit. */
interface Account {
  marks: Uint8Array
  length: number
}

/**
 * The invariants of delivery: what was answered is there, once, in the order in which its producer sent it, under the id
 * that it was given; what was refused is not there; what has no answer is there once or not at all. Producers send one
 * call after the other.
 */
export class Ledger {
  readonly #accounts = new Map<string, Account>()
  readonly #toldIds = new Map<string, string>()
  readonly #edits = new Map<string, number>()

  /** The outcome of the last try counts, as a repeated call is the same call. */
  note(producer: string, first: number, count: number, outcome: Outcome): void {
    const account = this.#account(producer, first + count)
    const mark = outcome === 'answered' ? ANSWERED : outcome === 'unknown' ? UNKNOWN : 0
    for (let number = first; number < first + count; number++) {
      const before = account.marks[number] ?? 0
      // A refusal says nothing about an earlier try whose answer was lost.
      account.marks[number] = mark === 0 && before === UNKNOWN ? UNKNOWN : mark
    }
  }

  /** The service answered that this event has this id. */
  noteId(producer: string, number: number, eventId: string): void {
    this.#toldIds.set(nameOf(producer, number), eventId)
  }

  /** The id that the service answered for this event, if it did. */
  idOf(producer: string, number: number): string | undefined {
    return this.#toldIds.get(nameOf(producer, number))
  }

  /** The service answered that it edited this event, for the `edit`th time. */
  noteEdit(producer: string, number: number, edit: number): void {
    this.#edits.set(nameOf(producer, number), edit)
  }

  /** The service answered that it deleted this event. */
  noteDeletion(producer: string, number: number): void {
    this.#account(producer, number + 1).marks[number] = DELETED
  }

  /** Ids that were answered to more than one event, those of lost ones included. */
  get sharedIds(): string[] {
    const ids = [...this.#toldIds.values()].sort()
    return ids.filter((id, i) => id === ids[i - 1])
  }

  /** How many events were answered. */
  get answered(): number {
    let count = 0
    for (const { marks } of this.#accounts.values()) for (const mark of marks) count += mark & ANSWERED
    return count
  }

  /** Compares what is there, in the order in which it is read. */
  async verdict(found: Iterable<Found> | AsyncIterable<Found>): Promise<Verdict> {
    const reading = new Reading(this.#accounts, this.#toldIds, this.#edits, false)
    for await (const event of found) reading.see(event)
    return reading.verdict()
  }

  /** For a walk that goes on while events are sent, edited and deleted: it may see those before that happens. */
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

  /** To be asked once, after the last event. */
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
