import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import type { AppOptions } from '../../../src/app.js'
import { KEY_KINDS, type KeyKind, makeKey, storedKey } from '../../../src/keys/keys.js'
import { insertKeys } from '../../../src/store/api-keys.js'
import { openStore } from '../../../src/store/open.js'
import { type Client, type StoredEvent, settingsFor, startApp, until } from '../../helper.js'

export interface SdkApp {
  client: Client
  /** of the project `sdk` */
  keys: Record<KeyKind, string>
  /** a write key of another project */
  otherKey: string
  inject(options: InjectOptions): Promise<LightMyRequestResponse>
  /** a body with the write key in the header, for tests that are not about keys */
  post(url: string, body: unknown, headers?: Record<string, string>): Promise<LightMyRequestResponse>
  /** the events of the project, oldest first, with `query` in addition */
  events(query?: string): Promise<StoredEvent[]>
  /** the properties of a user; undefined if there is none */
  user(distinctId: string): Promise<Record<string, unknown> | undefined>
}

/** The service with keys of every kind, as SDKs use it. */
export async function startSdkApp(
  t: Test,
  env: NodeJS.ProcessEnv = {},
  storage?: NodeJS.ProcessEnv,
  options: AppOptions = {},
): Promise<SdkApp> {
  const settings = { ...(storage ?? (await settingsFor(t, 'embedded'))), ...env }
  const client = await startApp(t, settings, { keysRefreshMs: 200, ...options })
  const keys = Object.fromEntries(KEY_KINDS.map((kind) => [kind, makeKey(kind)])) as Record<KeyKind, string>
  const otherKey = makeKey('write')
  const { clickhouse, close } = await openStore(client.config)
  const stored = KEY_KINDS.map((kind) => storedKey(keys[kind], { projectId: 'sdk', kind }))
  await insertKeys(clickhouse, [...stored, storedKey(otherKey, { projectId: 'other', kind: 'write' })], Date.now())
  await close()
  const inject = (options: InjectOptions) => client.app.inject(options)
  const read = async (url: string) => await inject({ url, headers: { 'x-api-key': keys.read } })
  await until('the keys', async () => (await read('/public/users')).statusCode === 200)
  return {
    client,
    keys,
    otherKey,
    inject,
    post: (url, body, headers = {}) => {
      const payload = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
      return inject({ method: 'POST', url, payload, headers: { ...basic(keys.write), ...headers } })
    },
    events: async (query = '') => (await read(`/public/events?limit=1000${query}`)).json().events.reverse(),
    user: async (distinctId) => (await read(`/public/users/${encodeURIComponent(distinctId)}`)).json().user?.properties,
  }
}

export function basic(key: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }
}
