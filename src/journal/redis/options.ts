import type { Position } from '../../model/position.js'
import type { LateStart } from './late-start.js'

export interface RedisJournalOptions {
  /** redis://[user:password@]host:port[/database], or a URL for `parseSentinelUrl`; a list: seeds of a Redis Cluster */
  url: string | readonly string[]
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** idempotency keys that a project may have remembered; 0, the default: any number */
  maxRequestKeys?: number
  /** the version of the store's layout by whose lanes this process writes; default FIRST_LAYOUT */
  layout?: number
  /** of several lanes: whether this process prefers this one; default: it is the only one */
  isHome?: boolean | undefined
  /** of every key; its braces are a hash tag, which keeps the keys in one slot of a cluster */
  prefix?: string
  /** of the other lanes, where each has a Redis of its own: one that holds theirs instead of this one is refused */
  otherPrefixes?: readonly string[]
  /** replicas that have to know of a write before it resolves, and of a block before it is stored; default 0 */
  replicas?: number
  /**
   * The last position from `from` on that the store has of any journal; called if Redis may have lost positions.
   * @throws if the store is unavailable
   */
  lastStored?(from: Position): Promise<Position>
  /** of several lanes: a Redis that cannot be reached is no error, but waited for; default: it is one */
  late?: LateStart | undefined
  log: { warn(data: object, message: string): void }
}
