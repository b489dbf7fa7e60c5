import type { AddressInfo } from 'node:net'
import { type Config, shardUrls } from '../config.js'
import type { KeysFound } from '../keys/key-refresh.js'
import type { KeyPair } from '../keys/keys.js'

const CREATE_KEYS = 'create a new pair with: npx tallyhouse keys create --project default'
const NO_KEY = `All keys were revoked; ${CREATE_KEYS}`
const NO_SECRET =
  'There is no secret key, so nothing can be read or managed. Set SECRET_KEY, or create a key with: ' +
  'npx tallyhouse keys create --project default --kind secret'

/**
 * Prints the address, the keys and calls to try, once the service listens. The first keys are created only then,
 * because a start that fails shows no keys and must not store any either. While ClickHouse is unavailable, the keys are
 * printed later.
 */
export class Greeting {
  readonly #role: Config['ROLE']
  readonly #hasSecretKey: boolean
  readonly #layout: string
  #url: string | null = null
  #keys: KeysFound | null = null
  #printsKeys = false

  constructor(config: Pick<Config, 'ROLE' | 'SECRET_KEY' | 'LANES' | 'CLICKHOUSE_URL'>) {
    this.#role = config.ROLE
    this.#hasSecretKey = config.SECRET_KEY !== undefined
    this.#layout = layoutText(config)
  }

  /** May be called before or after `print`. */
  onKeys(keys: KeysFound): void {
    this.#keys = keys
    if (this.#url !== null) void this.#printKeys(this.#url)
  }

  async print(address: AddressInfo): Promise<void> {
    this.#url = formatUrl(address)
    if (this.#keys) return await this.#printKeys(this.#url)
    const keys = this.#hasSecretKey
      ? 'Until ClickHouse is available, only the keys of the environment are valid.'
      : 'The keys are shown once ClickHouse is available.'
    console.log(`\n${this.#welcome(this.#url)}\n\n${keys}\n`)
  }

  async #printKeys(url: string): Promise<void> {
    if (!this.#keys || this.#printsKeys) return
    this.#printsKeys = true
    const { valid, hasSecret, makeFirst } = this.#keys
    const pair = makeFirst && (await makeFirst())
    const keys = pair ? keysText(pair) : valid > 0 || makeFirst ? this.#knownKeysText(hasSecret) : NO_KEY
    const calls = this.#role === 'writer' ? '' : `\n${callsText(url, pair?.secretKey ?? '$SECRET_KEY')}`
    console.log(`\n${this.#welcome(url)}\n\n${keys}\n${calls}`)
  }

  #welcome(url: string): string {
    return `${welcome(url, this.#role)}${this.#layout}`
  }

  #knownKeysText(hasSecret: boolean): string {
    if (!hasSecret && !this.#keys?.makeFirst) return NO_SECRET
    if (this.#hasSecretKey) return 'Use the keys of the environment, or any that were created before.'
    return `Use the keys that were created before. If they are lost, ${CREATE_KEYS}`
  }
}

function welcome(url: string, role: Config['ROLE']): string {
  if (role === 'writer') {
    const links = `${url}/health/ready and ${url}/metrics`
    return `Tallyhouse moves the journal to ClickHouse (ROLE=writer) and has no API.\nIts health and metrics: ${links}`
  }
  return `Tallyhouse serves at ${url}\nSee your events at ${url}/\nAPI reference, with a page to try it: ${url}/docs`
}

/** A line about a store of several lanes. */
function layoutText(config: Pick<Config, 'LANES' | 'CLICKHOUSE_URL'>): string {
  if (config.LANES === 1) return ''
  const shards = Math.max(1, shardUrls(config).length)
  return `\nIt writes ${config.LANES} lanes to ${shards} ${shards === 1 ? 'shard' : 'shards'}; tallyhouse lanes shows them.`
}

function keysText({ publicKey, secretKey }: KeyPair): string {
  return `This is the first start, so a pair of keys was created. They are shown only this once:

  PUBLIC_API_KEY=${publicKey}
  SECRET_KEY=${secretKey}`
}

function callsText(url: string, secret: string): string {
  return `Try it:

  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/track -d '{"event":"signed up","distinct_id":"ada","properties":{"plan":"pro"}}'
  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/users/profile -d '{"distinct_id":"ada","operations":{"$set":{"name":"Ada"}}}'
  curl -H "x-api-key: ${secret}" '${url}/public/events?limit=10'

For a website, create a write key at ${url}/#/settings: it comes with the line to put into your pages.
`
}

/** For a wildcard address, the loopback address is printed, which works on this machine. */
function formatUrl({ address, family, port }: AddressInfo): string {
  const isWildcard = address === '0.0.0.0' || address === '::'
  const host = isWildcard ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}`
}
