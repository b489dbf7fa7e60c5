import type { ClickHouse } from './client.js'
import { ShardsError } from './errors.js'
import type { Shard, Shards } from './shards.js'

/** Identifies a ClickHouse as a shard of a store. */
interface Identity {
  store: string
  number: number
}

/**
 * Checks that each URL leads to the same shard as before, and records new shards. If the order of the URLs changed, a
 * lane's writer could store blocks again that another shard already has. The shard of a store with only one has no
 * identity.
 * @throws ShardsError
 */
export async function checkIdentities(shards: Shards): Promise<void> {
  const known = await shards.each(readPlacedIdentity)
  if (!shards.areSeveral) return
  for (const { number, name, clickhouse } of shards.all) {
    if (number > 0 && !known[number]) await refuseForeign(clickhouse, number, name)
  }
  const others = new Set(known.flatMap((identity) => identity?.store ?? []))
  const isForeign = others.size > 1 || (others.size > 0 && !known[0])
  if (isForeign) throw toSeveralStoresError()
  const store = known[0]?.store ?? (await deriveStoreId(shards.first))
  for (const { number, clickhouse } of shards.all) {
    if (!known[number]) await note(clickhouse, store, number)
  }
}

/**
 * The shards that already have a number in the store to which the first shard belongs.
 * @param some shards, the first one first
 * @throws ShardsError if one has the number of another, or belongs to another store
 */
export async function findNumberedShards(some: readonly Shard[]): Promise<Shard[]> {
  const known = await Promise.all(some.map(readPlacedIdentity))
  const store = known[0]?.store
  if (store === undefined) return []
  if (known.some((identity) => identity && identity.store !== store)) throw toSeveralStoresError()
  return some.filter((_, i) => known[i])
}

function toSeveralStoresError(): ShardsError {
  return new ShardsError('CLICKHOUSE_URL names shards of several stores. Name those of one store.')
}

async function readPlacedIdentity({ number, name, clickhouse }: Shard): Promise<Identity | null> {
  const identity = await readIdentity(clickhouse)
  if (!identity || identity.number === number) return identity
  throw new ShardsError(
    `The order of CLICKHOUSE_URL was changed: ${name} is shard ${identity.number} of its store, but is listed as shard ${number}. List all shards in the order of their numbers.`,
  )
}

async function readIdentity(clickhouse: ClickHouse): Promise<Identity | null> {
  const [identity] = await clickhouse.rows<Identity>(
    'SELECT toString(store_id) AS store, number FROM shard_identity ORDER BY noted_at LIMIT 1',
  )
  return identity ?? null
}

/** Derived from the first database, so that services that start at the same time record the same id. */
async function deriveStoreId(first: ClickHouse): Promise<string> {
  const [row] = await first.rows<{ store: string }>(
    `SELECT toString(reinterpret(sipHash128(serverUUID(), name, uuid), 'UUID')) AS store
     FROM system.databases WHERE name = currentDatabase()`,
  )
  return row?.store ?? ''
}

async function note(clickhouse: ClickHouse, store: string, number: number): Promise<void> {
  await clickhouse.command('INSERT INTO shard_identity (store_id, number) SELECT {store:UUID}, {number:UInt16}', {
    store,
    number,
  })
}

/**
 * @throws ShardsError if a shard without an identity has data: it was another store, or CLICKHOUSE_URL has the wrong
 *   order
 */
async function refuseForeign(clickhouse: ClickHouse, number: number, name: string): Promise<void> {
  const [found] = await clickhouse.rows(
    'SELECT 1 FROM events LIMIT 1 UNION ALL SELECT 1 FROM profiles LIMIT 1 UNION ALL SELECT 1 FROM journals LIMIT 1',
  )
  if (!found) return
  throw new ShardsError(
    `${name} should be the new shard ${number}, but is not empty. List the store's first shard first in CLICKHOUSE_URL, and give new ones an empty database.`,
  )
}
