import type { EntriesOptions } from './entries.js'
import type { Clocks } from './memory-clock.js'

export interface LmdbJournalOptions extends Clocks, Pick<EntriesOptions, 'segmentBytes' | 'memoryBytes' | 'log'> {
  /** the directory, which only this process may use */
  path: string
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** idempotency keys that a project may have remembered; 0, the default: any number */
  maxRequestKeys?: number
  /** the version of the layout that this process was started for; default FIRST_LAYOUT */
  layout?: number
}
