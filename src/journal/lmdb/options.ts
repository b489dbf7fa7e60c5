import type { PerClass } from '../sender-limits.js'
import type { EntriesOptions } from './entries.js'
import type { Clocks } from './memory-clock.js'

export interface LmdbJournalOptions extends Clocks, Pick<EntriesOptions, 'segmentBytes' | 'memoryBytes' | 'log'> {
  /** the directory, which only this process may use */
  path: string
  /** above this many bytes of entries and their states, writes are refused */
  maxBytes: number
  /** idempotency keys that a sender may have remembered; default: any number */
  maxRequestKeys?: PerClass
  /** default: any number */
  maxIds?: PerClass
  /** the version of the layout that this process was started for; default FIRST_LAYOUT */
  layout?: number
}
