const MIB = 1024 * 1024

/** What Redis says of its memory, in bytes. */
export interface RedisMemory {
  /** what counts against the limit */
  used: number
  /** maxmemory; 0: there is none */
  limit: number
  /** what Redis does at the limit; only `noeviction` never deletes what was written */
  policy: string
}

/** Reads the answer to `INFO memory`. */
export function parseMemory(info: string): RedisMemory {
  const fields = new Map(info.split(/\r?\n/).map((line) => line.split(':', 2) as [string, string]))
  const bytes = (name: string) => Number(fields.get(name) ?? 0)
  return {
    // The buffers of replication and of the append-only file are not held against the limit.
    used: bytes('used_memory') - bytes('mem_not_counted_for_evict'),
    limit: bytes('maxmemory'),
    policy: fields.get('maxmemory_policy') ?? 'noeviction',
  }
}

/**
 * Bytes that may still be written before the journal has to refuse; negative where there should be less already. Kept
 * free are a fifth of the limit and 64 MiB at least, but never more than half: there have to be room for what requests
 * under way take (a write is in Redis several times until it is done) and for what the writer needs to drain the journal.
 */
export function roomIn({ used, limit }: RedisMemory): number {
  if (limit === 0) return Number.POSITIVE_INFINITY
  const reserve = Math.min(limit / 2, Math.max(limit / 5, 64 * MIB))
  return Math.floor(limit - reserve - used)
}
