import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import type { AppOptions } from '../../../src/app.js'
import type { KeyKind } from '../../../src/keys/keys.js'
import { type Client, type StoredEvent, settingsFor, startApp } from '../../helper.js'
import { newProject, sharedApp } from '../../shared-app.js'

export interface SdkApp {
  projectId: string
  /** the calls of the default project */
  client: Client
  keys: Record<KeyKind, string>
  /** a write key of another project */
  otherKey: string
  inject(options: InjectOptions): Promise<LightMyRequestResponse>
  /** a body with the write key in the header, for tests that are not about keys */
  post(url: string, body: unknown, headers?: Record<string, string>): Promise<LightMyRequestResponse>
  /** the events of the project, oldest first; `query` is added to the query string */
  events(query?: string): Promise<StoredEvent[]>
  /** the properties of a user; undefined if there is none */
  user(distinctId: string): Promise<Record<string, unknown> | undefined>
}

/** Starts a service with the project `sdk`. */
export async function startSdkApp(
  t: Test,
  env: NodeJS.ProcessEnv = {},
  storage?: NodeJS.ProcessEnv,
  options: AppOptions = {},
): Promise<SdkApp> {
  const settings = { ...(storage ?? (await settingsFor(t, 'embedded'))), FACTS: 'off', ...env }
  return await addSdkProject(await startApp(t, settings, options), 'sdk')
}

/** Adds a project for SDKs to a service. @param service default: the one that all tests of this process share */
export async function addSdkProject(service?: Client, name?: string): Promise<SdkApp> {
  const client = service ?? (await sharedApp())
  const [{ keys, projectId }, other] = await Promise.all([newProject(client, name), newProject(client)])
  const inject = (options: InjectOptions) => client.app.inject(options)
  const read = async (url: string) => await inject({ url, headers: { 'x-api-key': keys.read } })
  return {
    projectId,
    client,
    keys,
    otherKey: other.keys.write,
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
