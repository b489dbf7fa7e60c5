import { gzipSync } from 'node:zlib'
import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import type { AppOptions } from '../src/app.js'
import { type Grant, makeKey, storedKey } from '../src/keys/keys.js'
import { insertKeys } from '../src/store/api-keys.js'
import { openStore } from '../src/store/open.js'
import { type Client, startApp, until } from './helper.js'
import { listRoutes } from './list-routes.js'

const PROJECT = 'limited'

type Kind = 'write' | 'public' | 'secret'

type Method = NonNullable<InjectOptions['method']>

export interface Limited extends Client {
  keys: Record<Kind, string>
  /** sends from a new address unless one is given */
  send(call: InjectOptions, address?: string): Promise<LightMyRequestResponse>
  /** advances the clock of the limits, ms */
  pass(ms: number): void
}

let addresses = 0

/** An address that no other call has used. */
export function freshAddress(): string {
  addresses++
  return `10.${addresses >> 16}.${(addresses >> 8) & 255}.${addresses & 255}`
}

/**
 * The service with a project that has a key of each kind.
 * @param limits settings
 * @param grant what the keys of pages may do
 */
export async function startLimited(
  t: Test,
  env: NodeJS.ProcessEnv,
  limits: object,
  { log, ...grant }: Partial<Grant> & Pick<AppOptions, 'log'> = {},
) {
  const start = Date.now()
  let passed = 0
  // The clock does not move, so that no bucket fills while a test runs.
  const client = await startApp(t, { ...env, ...limits }, { now: () => start + passed, ...(log && { log }) })
  const keys = { write: makeKey('write'), public: makeKey('public'), secret: makeKey('secret') }
  const { clickhouse, close } = await openStore(client.config)
  const stored = (['write', 'public', 'secret'] as const).map((kind) => {
    return storedKey(keys[kind], { projectId: PROJECT, kind, ...(kind !== 'secret' && grant) })
  })
  await insertKeys(clickhouse, stored, Date.now())
  await close()
  const send: Limited['send'] = (call, remoteAddress = freshAddress()) => client.app.inject({ ...call, remoteAddress })
  const isKnown = async () => (await send({ url: '/public/users', headers: keyed(keys.secret) })).statusCode === 200
  await until('the keys', isKnown)
  const limited: Limited = {
    ...client,
    keys,
    send,
    pass: (ms) => {
      passed += ms
    },
  }
  return limited
}

/** For our own calls and for those of all vendors. */
export function keyed(key: string): Record<string, string> {
  return { 'x-api-key': key }
}

export function json(url: string, key: string, body: object): InjectOptions {
  return { method: 'POST', url, headers: keyed(key), payload: body }
}

/** A body that is small on the wire. */
export function inflating(url: string, headers: Record<string, string>, body: object): InjectOptions {
  const payload = gzipSync(JSON.stringify(body))
  return { method: 'POST', url, headers: { ...typeOf(url), 'content-encoding': 'gzip', ...headers }, payload }
}

/** Every call of the service, with a value for each parameter of its path. */
function callsOf({ app }: Client): { method: Method; url: string }[] {
  return listRoutes(app).flatMap((route) => {
    const [method = '', path = ''] = route.split(' ')
    const url = path.replace(/:\w+/g, 'x').replace('*', 'x')
    return ['GET', 'POST', 'PUT', 'DELETE'].includes(method) ? [{ method: method as Method, url }] : []
  })
}

export function sending(method: Method, url: string, headers: Record<string, string>): InjectOptions {
  return { method, url, headers: { ...headers, ...typeOf(url) }, ...(method === 'POST' && { payload: '{}' }) }
}

function typeOf(url: string): Record<string, string> {
  return { 'content-type': url.startsWith('/public/import') ? 'application/x-ndjson' : 'application/json' }
}

/**
 * The calls that take a browser key: without a key they are refused, and with one they are not refused for its kind.
 */
export async function doorsOf(t: Test, service: Limited, key: string, more: Record<string, string> = {}) {
  const doors = []
  for (const { method, url } of callsOf(service)) {
    const without = await service.send(sending(method, url, {}))
    t.not(without.statusCode, 415, `${url} takes the type that this test sends`)
    if (!/unauthorized|key is missing/i.test(without.body)) continue
    const response = await service.send(sending(method, url, { ...keyed(key), ...more }))
    if (!/wrong_key_kind|needs a .* key of the project|Web pages may not call this/.test(response.body))
      doors.push({ method, url })
  }
  return doors
}
