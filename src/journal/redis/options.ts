import type { Position } from '../../model/position.js'
import type { PerClass } from '../sender-limits.js'
import type { RedisJournalLog } from './history.js'
import type { LateStart } from './late-start.js'

export interface RedisJournalOptions {
  /** redis://[user:password@]host:port[/database], or a URL for `parseSentinelUrl`; a list: seeds of a Redis Cluster */
  url: string | readonly string[]
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** how many idempotency keys of a sender are remembered; default: what fits into Redis' maxmemory */
  maxRequestKeys?: PerClass
  /** how many ids of a sender are remembered; default: what fits into Redis' maxmemory */
  maxIds?: PerClass
  /** number of the layout that this process was started for; default FIRST_LAYOUT */
  layout?: number
  /** if there are several lanes: whether this process prefers this one; default: it is the only one */
  isHome?: boolean | undefined
  /** prefix of every key; its braces are a hash tag, which keeps the keys in one slot of a cluster */
  prefix?: string
  /** prefixes of the lanes on other Redis servers; a Redis that has one of their journals is refused */
  otherPrefixes?: readonly string[]
  /** a body up to this size, in bytes, is a part of its entry; default MAX_BODY_IN_ENTRY */
  maxBodyInEntry?: number
  /** how many replicas must have a write before it resolves, and a claim before its block is stored; default 0 */
  replicas?: number
  /**
   * The greatest stored position of any journal, searched from `from` on; called if Redis may have lost positions.
   * @throws if the store is unavailable
   */
  lastStored?(from: Position): Promise<Position>
  /** if given, a Redis that cannot be reached is waited for; by default that is an error */
  late?: LateStart | undefined
  log: RedisJournalLog
}
