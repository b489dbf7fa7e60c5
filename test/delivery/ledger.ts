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
}

/** How many events break each promise, with some of them as examples. */
export interface Verdict {
  /** answered and not there */
  lost: number
  /** there more than once */
  twice: number
  /** there behind one that its producer sent later, or with an id that does not rise */
  disordered: number
  /** there though it was refused or never sent */
  unexpected: number
  /** there under another id than it was answered with, or than it was read with before */
  renamed: number
  examples: string[]
}

export const FLAWLESS: Verdict = { lost: 0, twice: 0, disordered: 0, unexpected: 0, renamed: 0, examples: [] }

const MAX_EXAMPLES = 10
const ANSWERED = 1
const UNKNOWN = 2
const FOUND = 4

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
    const verdict = structuredClone(FLAWLESS)
    const blame = (fault: Exclude<keyof Verdict, 'examples'>, event: string) => {
      verdict[fault]++
      if (verdict.examples.length < MAX_EXAMPLES) verdict.examples.push(`${event} is ${fault}`)
    }
    // Also what a walk that broke off has left.
    for (const account of this.#accounts.values()) account.marks = account.marks.map((mark) => mark & ~FOUND)
    const lastNumbers = new Map<string, number>()
    let lastId = ''
    for await (const { producer, number, eventId } of found) {
      const event = nameOf(producer, number)
      const account = this.#account(producer, 0)
      const mark = account.marks[number] ?? 0
      if ((mark & (ANSWERED | UNKNOWN)) === 0) blame('unexpected', event)
      if (mark & FOUND) blame('twice', event)
      if (number < (lastNumbers.get(producer) ?? 0) || eventId <= lastId) blame('disordered', event)
      if ((this.#toldIds.get(event) ?? eventId) !== eventId) blame('renamed', event)
      if (number < account.length) account.marks[number] = mark | FOUND
      lastNumbers.set(producer, number)
      lastId = eventId
    }
    for (const [producer, { marks, length }] of this.#accounts) {
      for (let number = 0; number < length; number++) {
        if (marks[number] === ANSWERED) blame('lost', nameOf(producer, number))
      }
    }
    return verdict
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

function nameOf(producer: string, number: number): string {
  return `${producer} ${number}`
}
