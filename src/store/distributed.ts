import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError, ShardsError, StoreError, StoreUnreachableError } from '../clickhouse/errors.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import type { StateKind } from '../model/state-key.js'
import { newestRows, VERSIONED_TABLES } from './newest-rows.js'

/** Tables that get a counterpart over all shards. */
const TABLES = ['events', 'event_facts', 'dead_letters', 'dead_letter_replays', 'deletions', 'shard_identity']
const INSTEAD = 'or set CLICKHOUSE_CLUSTER to a cluster of the servers’ own configuration'

/**
 * Creates, on every shard, the tables over all shards: `events_all` and others, and `profiles_all` and `sessions_all`,
 * which have the newest row for each name. They are replaced at every start, so that they follow changes of addresses,
 * passwords and the schema; running queries keep the old ones.
 * @throws ShardsError, StoreUnreachableError that say what to do
 */
export async function createAllTables(shards: Shards): Promise<void> {
  const from = shards.cluster === undefined ? await remoteTables(shards) : clusterTables(shards.cluster)
  await shards.each(async (shard) => {
    try {
      await shard.clickhouse.prepare('tables of all shards', (server) => createOn(server, shards, from))
    } catch (error) {
      throw setupError(shards, shard, error)
    }
  })
}

async function createOn(server: ClickHouse, shards: Shards, from: Definition): Promise<void> {
  for (const table of TABLES) await server.command(from(`${table}_all`, table))
  for (const [name, { key, columns }] of Object.entries(VERSIONED_TABLES)) {
    await server.command(from(`${name}_rows`, name))
    const newest = newestRows(shards, name as StateKind)
    await server.command(
      `CREATE OR REPLACE VIEW ${name}_all AS SELECT project_id, ${key}, ${columns.join(', ')}, version FROM ${newest}`,
    )
  }
  await server.rows('SELECT count() FROM shard_identity_all')
}

/**
 * The numbers of the shards in the order of `shardNum()`, which depends on the cluster if the servers' configuration
 * defines one.
 */
export async function readShardOrder(shards: Shards): Promise<number[]> {
  const rows = await shards.rows<{ number: number }>(
    'SELECT number FROM shard_identity_all GROUP BY _shard_num, number ORDER BY _shard_num',
  )
  return rows.map(({ number }) => number)
}

type Definition = (name: string, table: string) => string

function clusterTables(cluster: string): Definition {
  return (name, table) =>
    `CREATE OR REPLACE TABLE ${name} AS ${table} ENGINE = Distributed(${quote(cluster)}, currentDatabase(), '${table}')`
}

/** Defines the tables by the hosts of CLICKHOUSE_URL, each with the native port that its server reports. */
async function remoteTables(shards: Shards): Promise<Definition> {
  const urls = shards.all.flatMap(({ urls = [] }) => urls.map((url) => new URL(url)))
  const logins = new Set(urls.map(({ username, password, pathname }) => `${username}:${password}${pathname}`))
  if (logins.size > 1) {
    throw new ShardsError(`All URLs of CLICKHOUSE_URL must have the same user, password and database, ${INSTEAD}.`)
  }
  const { protocol, username, password } = urls[0] ?? new URL('http://default')
  const isSecure = protocol === 'https:'
  const addresses = await shards.each((shard) => nativeAddresses(shard, isSecure))
  const login = [decodeURIComponent(username) || 'default', decodeURIComponent(password)].map(quote).join(', ')
  const source = isSecure ? 'remoteSecure' : 'remote'
  return (name, table) =>
    `CREATE OR REPLACE TABLE ${name} AS ${source}('${addresses.join(',')}', currentDatabase(), '${table}', ${login})`
}

/** The addresses of the shard's replicas, all with the native port of the replica in use. */
async function nativeAddresses({ number, name, urls = [], clickhouse }: Shard, isSecure: boolean): Promise<string> {
  const port = isSecure ? 'tcp_port_secure' : 'tcp_port'
  const [row] = await clickhouse
    .rows<{ port: number }>(`SELECT getServerPort('${port}') AS port`)
    .catch((error: unknown) => {
      if (!(error instanceof StoreError)) throw error
      const missing = `Shard ${number} (${name}) has no native port (${port})`
      throw new ShardsError(`${missing}, which the shards need to read from each other. Give it one, ${INSTEAD}.`)
    })
  return urls.map((url) => `${new URL(url).hostname}:${row?.port}`).join('|')
}

/** Turns the error of a shard that cannot read from all shards into an error that says what to do. */
function setupError(shards: Shards, { number, name }: Shard, error: unknown): unknown {
  if (!(error instanceof StoreError)) return error
  const { message } = error
  if (isStoreError(error, 'ACCESS_DENIED')) {
    const user = decodeURIComponent(new URL(shards.at(number).urls?.[0] ?? 'http://default@x').username) || 'default'
    return new ShardsError(
      `The user ${user} may not read from other servers on shard ${number} (${name}). Run GRANT REMOTE ON *.* TO ${user} on every shard, ${INSTEAD}. (${message})`,
    )
  }
  if (isStoreError(error, 'AUTHENTICATION_FAILED', 'UNKNOWN_USER', 'WRONG_PASSWORD')) {
    return new ShardsError(
      `Another shard refuses the login of shard ${number} (${name}). Give all shards the same user and password, ${INSTEAD}. (${message})`,
    )
  }
  if (isStoreError(error, 'ALL_CONNECTION_TRIES_FAILED', 'NETWORK_ERROR', 'SOCKET_TIMEOUT')) {
    return new StoreUnreachableError(
      `Shard ${number} (${name}) cannot reach every other shard on its native port. If they are up, open that port between the servers, ${INSTEAD}. (${message})`,
    )
  }
  return error
}

/** A string literal: these table functions accept neither parameters nor expressions. */
function quote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
