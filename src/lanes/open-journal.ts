import { join } from 'node:path'
import type { Shards } from '../clickhouse/shards.js'
import { type Config, journalUrls } from '../config.js'
import type { Journal } from '../journal/journal.js'
import type { LayoutGuard } from '../journal/layout.js'
import type { LateStart } from '../journal/redis/late-start.js'
import { isSentinelUrl, parseSentinelUrl } from '../journal/redis/url.js'
import type { Relocation } from '../journal/relocation.js'
import { limitIds, limitKeys } from '../journal/sender-limits.js'
import type { Log } from '../lib/log.js'
import { using } from '../lib/using.js'
import type { Position } from '../model/position.js'
import { findLastPosition } from '../store/journals.js'
import { redisForLane } from './redis-urls.js'

export interface WhichJournal {
  /** number of the lane, from 0 */
  lane: number
  /** number of the layout that this process was started for; the journal refuses processes of other layouts */
  layout: number
  /** the lane that this process prefers, if there are several */
  home?: number
  /** if given, the Redis may be down, and the journal opens once it is up; by default that is an error */
  late?: LateStart
}

/**
 * Opens the journal of a lane that the configuration selects: Redis with REDIS_URL, else LMDB in DATA_DIR. Only the
 * selected one is loaded, because LMDB is an optional package.
 * @param shards in which a Redis journal that has lost its data looks for the last stored position
 * @throws Error that says what to do, if the embedded journal is not installed
 */
export async function openJournal(config: Config, log: Log, shards: Shards, which: WhichJournal): Promise<Journal> {
  const { lane, layout, home, late } = which
  const maxRequestKeys = limitKeys(config.MAX_IDEMPOTENCY_KEYS)
  const limits = { maxBytes: config.JOURNAL_MAX_BYTES, maxRequestKeys, maxIds: limitIds(config.MAX_INSERT_IDS), layout }
  if (config.REDIS_URL !== undefined) {
    const { openRedisJournal } = await import('../journal/redis/journal.js')
    const [url, otherPrefixes] = [await redisForLane(config, lane), await prefixesElsewhere(config, lane)]
    return await openRedisJournal({
      url,
      ...limits,
      prefix: formatPrefix(lane),
      otherPrefixes,
      replicas: config.REDIS_REPLICAS,
      isHome: home === undefined ? undefined : lane === home,
      lastStored: (from: Position) => findLastPosition(shards, from),
      late,
      log,
    }).catch((error: Error) => {
      throw config.LANES > 1 ? new Error(`In ${laneName(config, lane)}: ${error.message}`, { cause: error }) : error
    })
  }
  const { openLmdbJournal } = await import('../journal/lmdb/journal.js').catch(notInstalled)
  return await openLmdbJournal({ path: formatPath(config, lane), ...limits, log })
}

/**
 * Opens the journal of a lane to inspect it or to change the layout. Creates nothing. The embedded journal may be
 * inspected while a service has it open.
 * @throws Error if it cannot be reached, or if the embedded journal is not installed
 */
export async function openRelocation(config: Config, lane: number, log: Log): Promise<Relocation> {
  if (config.REDIS_URL !== undefined) {
    const { openRedisRelocation } = await import('../journal/redis/relocation.js')
    return await openRedisRelocation({
      url: await redisForLane(config, lane),
      prefix: formatPrefix(lane),
      replicas: config.REDIS_REPLICAS,
      log,
    })
  }
  const { openLmdbRelocation } = await import('../journal/lmdb/relocation.js').catch(notInstalled)
  return openLmdbRelocation({ path: formatPath(config, lane) })
}

/** The guard of the first lane that can be reached; null if it has no journal, or if no lane can be reached. */
export async function readGuard(config: Config, log: Log): Promise<LayoutGuard | null> {
  for (let lane = 0; lane < config.LANES; lane++) {
    const guard = await readLaneGuard(config, lane, log)
    if (guard !== undefined) return guard
  }
  return null
}

/** @returns undefined if it cannot be reached */
async function readLaneGuard(config: Config, lane: number, log: Log): Promise<LayoutGuard | null | undefined> {
  try {
    const status = await using(openRelocation(config, lane, log), (journal) => journal.readStatus())
    return status && { version: status.layout, closedFor: status.closedFor }
  } catch {
    // When it is opened for use, that reports the reason.
    return undefined
  }
}

function notInstalled(error: Error): never {
  const reason = error.message.split('\n')[0]
  throw new Error(`The embedded journal cannot be loaded (${reason}). Install the optional packages, or set REDIS_URL.`)
}

/**
 * The key prefixes of the lanes that are on other Redis servers. If one is found on this lane's server, the order of
 * REDIS_URL has changed.
 */
async function prefixesElsewhere(config: Config, lane: number): Promise<string[]> {
  const places = await Promise.all(Array.from({ length: config.LANES }, (_, other) => redisForLane(config, other)))
  return places.flatMap((place, other) => (place === places[lane] || Array.isArray(place) ? [] : [formatPrefix(other)]))
}

/** Prefix of a lane's keys in Redis. */
function formatPrefix(lane: number): string {
  return lane === 0 ? '{tallyhouse}' : `{tallyhouse:${lane}}`
}

function formatPath({ DATA_DIR }: Config, lane: number): string {
  return join(DATA_DIR, lane === 0 ? 'journal' : `journal-${lane}`)
}

/** A lane in messages: with host and port of its Redis, or the name of its master. */
export function laneName(config: Config, lane: number): string {
  return config.REDIS_URL === undefined ? `lane ${lane}` : `lane ${lane} (${lanePlace(config, lane)})`
}

/** The address of a lane: host and port of its Redis, the name of its master, or a folder. */
export function lanePlace(config: Config, lane: number): string {
  if (config.REDIS_URL === undefined) return formatPath(config, lane)
  const urls = journalUrls(config)
  // Any node of a cluster may have the lane.
  if (urls.length > 1 && urls.length !== config.LANES) return urls.map((url) => new URL(url).host).join(',')
  const url = urls[lane] ?? urls[0] ?? ''
  return (isSentinelUrl(url) ? parseSentinelUrl(url)?.name : new URL(url).host) ?? ''
}
