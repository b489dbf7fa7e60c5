import type { AddressInfo } from 'node:net'
import type { Config } from '../config.js'
import type { KeysFound } from '../keys/key-refresh.js'
import type { KeyPair } from '../keys/keys.js'

const MAKE_KEYS = 'Make a new pair: npx tallyhouse keys create --project default'
const NO_KEY = `No key is good, as all were revoked. ${MAKE_KEYS}`

/**
 * What the start prints, once it listens. The keys of a first start are made only then: a start that fails shows none,
 * so it must leave none behind either. Where ClickHouse is unavailable, they follow when it answers.
 */
export class Greeting {
  readonly #role: Config['ROLE']
  readonly #hasSecretKey: boolean
  #url: string | null = null
  #keys: KeysFound | null = null
  #tellsKeys = false

  constructor({ ROLE, SECRET_KEY }: Config) {
    this.#role = ROLE
    this.#hasSecretKey = SECRET_KEY !== undefined
  }

  /** Called before or after `tell`. */
  onKeys(keys: KeysFound): void {
    this.#keys = keys
    if (this.#url !== null) void this.#tellKeys(this.#url)
  }

  async tell(address: AddressInfo): Promise<void> {
    this.#url = urlOf(address)
    if (this.#keys) return await this.#tellKeys(this.#url)
    const keys = this.#hasSecretKey
      ? 'Until ClickHouse answers, only the keys of the environment are known.'
      : 'The keys follow when ClickHouse answers.'
    console.log(`\n${welcome(this.#url, this.#role)}\n\n${keys}\n`)
  }

  async #tellKeys(url: string): Promise<void> {
    if (!this.#keys || this.#tellsKeys) return
    this.#tellsKeys = true
    const { good, makeFirst } = this.#keys
    const pair = makeFirst && (await makeFirst())
    const keys = pair ? keysText(pair) : good > 0 || makeFirst ? this.#knownKeysText() : NO_KEY
    const calls = this.#role === 'writer' ? '' : `\n${callsText(url, pair?.secretKey ?? '$SECRET_KEY')}`
    console.log(`\n${welcome(url, this.#role)}\n\n${keys}\n${calls}`)
  }

  #knownKeysText(): string {
    if (this.#hasSecretKey) return 'The keys are those of the environment, and any that were made before.'
    return `The keys are those that were made before. Are they lost? ${MAKE_KEYS}`
  }
}

function welcome(url: string, role: Config['ROLE']): string {
  if (role === 'writer') {
    const found = `${url}/health/ready and ${url}/metrics`
    return `Tallyhouse writes from the journal to ClickHouse (ROLE=writer) and answers no calls.\nIts health and metrics: ${found}`
  }
  return `Tallyhouse serves at ${url}\nThe calls, and a page to try them: ${url}/docs`
}

function keysText({ publicKey, secretKey }: KeyPair): string {
  return `This is the first start, so a pair of keys was made. They are shown only now:

  PUBLIC_API_KEY=${publicKey}
  SECRET_KEY=${secretKey}`
}

function callsText(url: string, secret: string): string {
  return `Try it:

  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/track -d '{"event":"signed up","distinct_id":"ada","properties":{"plan":"pro"}}'
  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/users/identify -d '{"distinct_id":"ada","properties":{"name":"Ada"}}'
  curl -H "x-api-key: ${secret}" '${url}/public/events?limit=10'
`
}

/** A service that listens everywhere is shown at this machine's own address. */
function urlOf({ address, family, port }: AddressInfo): string {
  const everywhere = address === '0.0.0.0' || address === '::'
  const host = everywhere ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}`
}
