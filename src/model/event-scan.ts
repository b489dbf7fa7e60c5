import { MAX_SCAN_DEPTH } from '../contract/limits.js'
import { OTHER, PROPERTIES, Scan, TIMESTAMP } from './scan.js'

/** Scans the events in a buffer that holds many of them, such as a chunk of a file to import. */
export class EventScan {
  readonly #scan: Scan

  /** @param raw must be valid UTF-8, which is not checked here */
  constructor(raw: Buffer) {
    this.#scan = new Scan(raw, MAX_SCAN_DEPTH, Number.POSITIVE_INFINITY)
  }

  /** The offset after the event that begins at `at`, or -1 if the scan cannot tell that it is valid. */
  endOf(at: number): number {
    return this.#scan.next(at)
  }

  /** Whether the last event has a field that the contract does not define. */
  get hasOthers(): boolean {
    return (this.#scan.fields & OTHER) !== 0
  }

  get hasTimestamp(): boolean {
    return (this.#scan.fields & TIMESTAMP) !== 0
  }

  /** Whether the last event has properties, null included. */
  get hasProperties(): boolean {
    return (this.#scan.fields & PROPERTIES) !== 0
  }
}
