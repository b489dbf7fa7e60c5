import type { KeyClass } from '../../contract/key-class.js'
import type { PerClass } from '../sender-limits.js'

const MIB = 1024 * 1024

/**
 * Bytes of an id: 24 to 45 were measured, depending on how full the hashes are. An idempotency key takes 40 to 60 if
 * there are many.
 */
export const BYTES_PER_ID = 32
const BYTES_PER_KEY = 60
/** Share of the memory that the ids, and the idempotency keys, of one sender may take. */
const SHARES: PerClass = { secret: 1 / 4, page: 1 / 8 }

/** How many ids and idempotency keys of one sender are remembered. @param limit maxmemory, bytes; 0: none */
export function limitsWithin(limit: number, { ids, keys }: Record<'ids' | 'keys', PerClass>) {
  const limitBy = (max: PerClass, bytes: number): PerClass => {
    if (limit === 0) return max
    const share = (keyClass: KeyClass) => Math.floor(Math.min(max[keyClass], (limit * SHARES[keyClass]) / bytes))
    return { secret: share('secret'), page: share('page') }
  }
  return { ids: limitBy(ids, BYTES_PER_ID), keys: limitBy(keys, BYTES_PER_KEY) }
}

/** The memory of Redis, in bytes. */
export interface RedisMemory {
  /** counted against the limit */
  used: number
  /** maxmemory; 0: no limit */
  limit: number
  /** maxmemory-policy; only `noeviction` never deletes what was written */
  policy: string
}

/** Parses the reply to `INFO memory`. */
export function parseMemory(info: string): RedisMemory {
  const fields = new Map(info.split(/\r?\n/).map((line) => line.split(':', 2) as [string, string]))
  const bytes = (name: string) => Number(fields.get(name) ?? 0)
  return {
    // The buffers of replication and of the append-only file do not count.
    used: bytes('used_memory') - bytes('mem_not_counted_for_evict'),
    limit: bytes('maxmemory'),
    policy: fields.get('maxmemory_policy') ?? 'noeviction',
  }
}

/** Whether Redis may delete what was written, to make room. */
export function mayEvict({ limit, policy }: RedisMemory): boolean {
  return limit > 0 && policy !== 'noeviction'
}

/**
 * Bytes that may still be written before the journal has to refuse writes; negative if that point is passed. The
 * reserve is a fifth of the limit, at least 64 MiB and at most half: room for requests in flight, because Redis holds
 * several copies of a write until it is done, and for the writer to drain the journal.
 */
export function roomIn({ used, limit }: RedisMemory): number {
  if (limit === 0) return Number.POSITIVE_INFINITY
  const reserve = Math.min(limit / 2, Math.max(limit / 5, 64 * MIB))
  return Math.floor(limit - reserve - used)
}
