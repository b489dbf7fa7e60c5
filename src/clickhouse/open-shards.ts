import { shardUrls } from '../config.js'
import type { Log } from '../lib/log.js'
import { ClickHouse, type StoreOptions } from './client.js'
import { Shards } from './shards.js'

/** How the reads of projects are limited, and with which settings. */
export type ReadingOptions = Pick<StoreOptions, 'slotLimits' | 'owners' | 'settingsOfReads'>

export interface OpenShardsOptions extends ReadingOptions {
  /** the setting CLICKHOUSE_CLUSTER */
  cluster?: string | undefined
  /** logs when another replica of a shard takes over; default: none */
  log?: Pick<Log, 'warn'>
}

/**
 * Creates clients for the shards of CLICKHOUSE_URL, each with one URL or those of its replicas. Sends no request yet.
 */
export function openShards(url: string, { cluster, log, ...reading }: OpenShardsOptions = {}): Shards {
  const shards = shardUrls({ CLICKHOUSE_URL: url }).map((urls, number) => {
    const name = urls.map((one) => new URL(one).host).join('|')
    const onSwitch = (from: string, to: string) => {
      log?.warn({ shard: number, from, to }, 'ClickHouse has failed over to another replica')
    }
    const clickhouse = new ClickHouse({ url: urls.join('|'), onSwitch, ...reading })
    return { number, name, clickhouse, urls }
  })
  return new Shards(shards, { cluster })
}
