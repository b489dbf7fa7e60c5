import { statSync } from 'node:fs'
import { isIP } from 'node:net'
import { Kind, type Static, Type, TypeRegistry } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { CONTEXT_MODES } from './contract/context.js'
import { MAX_SCAN_DEPTH } from './contract/limits.js'
import { VENDOR_PREFIXES, type VendorPrefix } from './contract/vendor-prefixes.js'
import { isSentinelUrl, parseSentinelUrl } from './journal/redis/url.js'
import { isOrigin } from './lib/origin.js'

const MIB = 1024 * 1024

/** Whether a text is a URL whose parts can be decoded. It may contain a password, so errors never show it. */
function isUrl(text: string): boolean {
  try {
    const { username, password, pathname } = new URL(text)
    for (const part of [username, password, pathname]) decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

/**
 * A comma-separated list of addresses and networks (CIDR), as Fastify's `trustProxy` takes it.
 * Neither "all" nor a number of proxies is offered: either would let a client that reaches the
 * service directly claim any address.
 */
TypeRegistry.Set('ProxyList', (_schema, value) => typeof value === 'string' && value.split(',').every(isNetwork))

function isNetwork(text: string): boolean {
  const [, address = '', prefix] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text.trim()) ?? []
  const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
  const length = prefix === undefined ? bits : Number(prefix)
  return length > 0 && length <= bits
}

/** A value that can never match is a configuration error. */
TypeRegistry.Set('OriginList', (_schema, value) => {
  return typeof value === 'string' && (value === '*' || splitList(value).every(isOrigin))
})

/** A host name as in a Host header, without a port: letters, digits, dots and hyphens, or IPv6 in brackets. */
const HOST_NAME = /^(?:[a-z\d_](?:[a-z\d_-]*[a-z\d_])?(?:\.[a-z\d_](?:[a-z\d_-]*[a-z\d_])?)*|\[[\da-f:.]+\])$/i

TypeRegistry.Set('VendorHosts', (_schema, value) => {
  if (typeof value !== 'string') return false
  const names = splitList(value).map((item) => item.slice(0, item.lastIndexOf('=')).toLowerCase())
  return splitList(value).every(isVendorHost) && new Set(names).size === names.length
})

function isVendorHost(item: string): boolean {
  const [host = '', vendor = '', ...more] = item.split('=')
  return HOST_NAME.test(host) && Object.hasOwn(VENDOR_PREFIXES, vendor) && more.length === 0
}

/** The name of a header (RFC 9110). */
const HEADER = /^[\w!#$%&'*+.^`|~-]+$/

TypeRegistry.Set('HeaderList', (_schema, value) => {
  return typeof value === 'string' && splitList(value).every((name) => HEADER.test(name))
})

TypeRegistry.Set('File', (_schema, value) => {
  try {
    return typeof value === 'string' && statSync(value).isFile()
  } catch {
    return false
  }
})

TypeRegistry.Set('Folder', (_schema, value) => {
  try {
    return typeof value === 'string' && statSync(value).isDirectory()
  } catch {
    return false
  }
})

/** Shorter keys can be guessed. Generated keys have 46 characters. */
const MIN_KEY_LENGTH = 16

/** A key that a header can carry unchanged: a trailing newline, common in files, or an umlaut would never match. */
const key = () =>
  Type.String({
    minLength: MIN_KEY_LENGTH,
    pattern: '^[!-~]([ -~]*[!-~])?$',
    message: `a key of at least ${MIN_KEY_LENGTH} ASCII characters, without leading or trailing spaces or line breaks`,
    isSecret: true,
  })

/** URLs of Redis, or of Sentinels. */
TypeRegistry.Set('RedisUrls', (_schema, value) => typeof value === 'string' && splitUrls(value).every(isRedisUrl))

/** A comma in the host means that the separator of two URLs was not recognised. The path is a database number. */
function isRedisUrl(text: string): boolean {
  if (isSentinelUrl(text)) return parseSentinelUrl(text) !== null
  if (!/^rediss?:\/\//.test(text) || !isUrl(text)) return false
  const { hostname, pathname, searchParams } = new URL(text)
  const database = searchParams.get('db') ?? pathname.slice(1)
  return !hostname.includes(',') && /^\/?\d*$/.test(pathname) && /^\d{0,5}$/.test(database)
}

/** URLs of ClickHouse: shards, each with its replicas. */
TypeRegistry.Set('ClickHouseUrls', (_schema, value) => {
  return typeof value === 'string' && splitUrls(value).flatMap(splitReplicas).every(isClickHouseUrl)
})

/** The path names a database, including a trailing slash if there is one. Anything after a `?` would be ignored. */
function isClickHouseUrl(text: string): boolean {
  if (!/^https?:\/\/[^/?#]+(\/[^/?#]*)?$/.test(text) || !isUrl(text)) return false
  return !new URL(text).hostname.includes(',')
}

interface Bounds {
  default: number
  minimum: number
  maximum: number
}

/** A whole number. @param unit such as `seconds` */
const integer = (unit: string, bounds: Bounds) =>
  Type.Integer({ ...bounds, message: `${unit}, ${bounds.minimum} to ${bounds.maximum}` })

/** A size without an upper limit. */
const bytes = ({ minimum, ...bounds }: Omit<Bounds, 'maximum'>) =>
  Type.Integer({ ...bounds, minimum, maximum: Number.MAX_SAFE_INTEGER, message: `bytes, at least ${minimum}` })

/** A limit that can be turned off. @param unit such as `a number of requests` */
const limit = (unit: string, bounds: Omit<Bounds, 'minimum'>) =>
  Type.Integer({ ...bounds, minimum: 0, message: `${unit}, 0 for no limit` })

/** The maximum number of lanes, and so of shards, in a store. */
export const MAX_LANES = 64

/** Every setting, with its type, limits and default. docs/settings.md has the same table. */
const Settings = Type.Object({
  HOST: Type.String({ default: '127.0.0.1', message: 'an address to listen on' }),
  PORT: Type.Integer({ default: 3000, minimum: 0, maximum: 65535, message: 'a port from 0 to 65535' }),
  CLICKHOUSE_URL: Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'ClickHouseUrls',
      message:
        'a URL such as http://user:password@host:8123/database, with special characters percent-encoded and ' +
        'nothing after the database, or several: shards separated by commas, replicas by |',
      isSecret: true,
    }),
  ),
  REDIS_URL: Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'RedisUrls',
      message:
        'a URL such as redis://:password@host:6379/0, with special characters percent-encoded, or ' +
        'sentinel://host:26379,host:26379/master, or several separated by commas',
      isSecret: true,
    }),
  ),
  REDIS_REPLICAS: Type.Integer({ default: 0, minimum: 0, maximum: 16, message: 'a number of replicas from 0 to 16' }),
  LANES: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_LANES, message: `a number of lanes from 1 to ${MAX_LANES}` }),
  ),
  HOME_LANE: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MAX_LANES - 1, message: `the number of a lane, 0 to ${MAX_LANES - 1}` }),
  ),
  CLICKHOUSE_CLUSTER: Type.Optional(
    Type.String({ pattern: '^[A-Za-z_][\\w.-]{0,127}$', message: "a cluster's name in the servers' configuration" }),
  ),
  DATA_DIR: Type.String({ default: './data', message: 'a folder' }),
  PUBLIC_API_KEY: Type.Optional(key()),
  SECRET_KEY: Type.Optional(key()),
  SESSION_SECRET: Type.Optional(
    Type.String({
      minLength: MIN_KEY_LENGTH,
      message: `at least ${MIN_KEY_LENGTH} characters long`,
      isSecret: true,
    }),
  ),
  ROLE: Type.Union([Type.Literal('all'), Type.Literal('api'), Type.Literal('writer')], {
    default: 'all',
    message: 'one of all, api, writer',
  }),
  WORKERS: Type.Integer({ default: 1, minimum: 1, maximum: 64, message: 'a number of processes from 1 to 64' }),
  DELETE_USER_EVENTS: Type.Boolean({ default: false, message: 'true or false' }),
  PURGE_INTERVAL: integer('hours', { default: 1, minimum: 1, maximum: 8760 }),
  LOG_LEVEL: Type.Union(
    [
      Type.Literal('fatal'),
      Type.Literal('error'),
      Type.Literal('warn'),
      Type.Literal('info'),
      Type.Literal('debug'),
      Type.Literal('trace'),
      Type.Literal('silent'),
    ],
    { default: 'info', message: 'one of fatal, error, warn, info, debug, trace, silent' },
  ),
  BODY_LIMIT: integer('bytes', { default: MIB, minimum: 1024, maximum: 256 * MIB }),
  BATCH_BODY_LIMIT: integer('bytes', { default: 20 * MIB, minimum: 1024, maximum: 256 * MIB }),
  BODY_MEMORY: bytes({ default: 256 * MIB, minimum: MIB }),
  MAX_PROPERTY_DEPTH: integer('levels', { default: MAX_SCAN_DEPTH, minimum: 1, maximum: MAX_SCAN_DEPTH }),
  MAX_PROFILE_BYTES: integer('bytes', { default: MIB, minimum: 1024, maximum: 4 * MIB }),
  QUERY_TIMEOUT: integer('seconds', { default: 30, minimum: 1, maximum: 3600 }),
  QUERY_MEMORY: bytes({ default: 2048 * MIB, minimum: 64 * MIB }),
  JOURNAL_MAX_BYTES: bytes({ default: 4096 * MIB, minimum: MIB }),
  MAX_IDEMPOTENCY_KEYS: limit('a number of keys', { default: 10_000_000, maximum: 1e12 }),
  MAX_INSERT_IDS: Type.Integer({
    default: 10_000_000,
    minimum: 1000,
    maximum: 1e9,
    message: 'a number of ids, 1000 to 1e9',
  }),
  RATE_LIMIT: limit('a number of requests', { default: 0, maximum: 1e9 }),
  RATE_LIMIT_WINDOW: integer('seconds', { default: 60, minimum: 1, maximum: 86_400 }),
  ADDRESS_LIMIT: limit('a number of requests', { default: 300_000, maximum: 1e9 }),
  WORK_ADDRESS_LIMIT: limit('bytes per second', { default: MIB / 2, maximum: Number.MAX_SAFE_INTEGER }),
  WORK_KEY_LIMIT: limit('bytes per second', { default: 2 * MIB, maximum: Number.MAX_SAFE_INTEGER }),
  NEW_USERS_LIMIT: limit('a number of users and aliases', { default: 10_000, maximum: 1e9 }),
  NEW_VISITORS_LIMIT: limit('a number of visitors', { default: 1_000_000, maximum: 1e9 }),
  WRONG_KEY_LIMIT: limit('a number of requests', { default: 10_000, maximum: 1e9 }),
  MAX_CONNECTIONS: Type.Integer({ default: 10_000, minimum: 1, maximum: 1e6, message: 'a number of connections' }),
  MAX_LIVE_STREAMS: Type.Integer({ default: 5_000, minimum: 0, maximum: 1e6, message: 'a number of live streams' }),
  MAX_PROJECT_LIVE_STREAMS: Type.Integer({
    default: 2_000,
    minimum: 0,
    maximum: 1e6,
    message: 'a number of live streams',
  }),
  TRUST_PROXY: Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'ProxyList',
      message: 'the addresses or networks of proxies, such as 127.0.0.1,10.1.0.0/16',
    }),
  ),
  FACTS: Type.Unsafe<'on' | 'all' | 'off'>({
    ...Type.Union([Type.Literal('on'), Type.Literal('all'), Type.Literal('off')]),
    default: 'on',
    message: 'on, all or off',
  }),
  CONTEXT: Type.Unsafe<(typeof CONTEXT_MODES)[number]>({
    ...Type.Union(CONTEXT_MODES.map((mode) => Type.Literal(mode))),
    default: 'full',
    message: `one of ${CONTEXT_MODES.join(', ')}`,
  }),
  COUNTRY_HEADERS: Type.Unsafe<string>({
    [Kind]: 'HeaderList',
    default: 'CF-IPCountry,CloudFront-Viewer-Country,X-Vercel-IP-Country,X-AppEngine-Country,X-Country-Code',
    message: 'names of headers, such as CF-IPCountry',
  }),
  GEO_DATABASE: Type.Optional(Type.Unsafe<string>({ [Kind]: 'File', message: 'an .mmdb file that can be read' })),
  CORS_ORIGIN: Type.Unsafe<string>({
    [Kind]: 'OriginList',
    default: '*',
    message:
      'origins as browsers send them (lower case, without a path or the usual port, other scripts as xn--, each ' +
      'subdomain by its name), such as https://example.com,https://shop.example.com, or * for any',
  }),
  SCRIPT_PATH: Type.Optional(
    Type.String({
      pattern: '^/[\\w-]+(\\.[\\w-]+)*\\.js$',
      message: 'a path without folders that ends in .js, such as /site.js',
    }),
  ),
  VENDOR_HOSTS: Type.Optional(
    Type.Unsafe<string>({
      [Kind]: 'VendorHosts',
      message:
        'host names without a port, each listed once with its vendor, such as ' +
        `posthog.example.com=posthog,mixpanel.example.com=mixpanel; the vendors are ${Object.keys(VENDOR_PREFIXES).join(', ')}`,
    }),
  ),
  VENDOR_SCRIPTS: Type.Optional(
    Type.Unsafe<string>({ [Kind]: 'Folder', message: "the folder in which you installed the vendors' scripts" }),
  ),
})

export type Config = Static<typeof Settings> & {
  /** default: one per URL of REDIS_URL, else 1 */
  LANES: number
}

/** The names of all settings, which are environment variables. */
export const SETTINGS = Object.keys(Settings.properties)

/** An invalid setting. The message names it and its valid values, and never contains a key. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * Reads the configuration from environment variables. An empty variable counts as absent, as in a
 * compose file.
 * @throws ConfigError that names the first invalid setting
 */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const given: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(Settings.properties)) {
    const text = env[name]
    if (text !== undefined && text !== '') given[name] = fromText(text, schema.type)
  }
  const settings = Value.Default(Settings, given)
  const fault = Value.Errors(Settings, settings).First()
  if (fault) {
    const name = fault.path.slice(1)
    const shown = fault.schema.isSecret ? '' : `, but is ${JSON.stringify(env[name])}`
    throw new ConfigError(`${name} must be ${String(fault.schema.message)}${shown}.`)
  }
  const config = withLanes(settings as Static<typeof Settings>)
  for (const name of ['REDIS_URL', 'CLICKHOUSE_URL'] as const) {
    if (config.ROLE !== 'all' && config[name] === undefined) {
      throw new ConfigError(
        `ROLE=${config.ROLE} needs ${name}: the embedded engines serve a single process. Set it, or use ROLE=all.`,
      )
    }
  }
  if (config.REDIS_REPLICAS > 0 && config.REDIS_URL === undefined) {
    throw new ConfigError('REDIS_REPLICAS above 0 needs REDIS_URL: the embedded journal has no replicas.')
  }
  if (config.WORKERS > 1 && config.REDIS_URL === undefined) {
    throw new ConfigError('WORKERS above 1 needs REDIS_URL: the embedded journal serves a single process.')
  }
  if (config.WORKERS > 1 && config.ROLE !== 'all') {
    throw new ConfigError(
      `WORKERS above 1 requires ROLE=all; with ROLE=${config.ROLE}, start as many processes as you need.`,
    )
  }
  if (config.SECRET_KEY !== undefined && config.SECRET_KEY === config.PUBLIC_API_KEY) {
    throw new ConfigError('SECRET_KEY and PUBLIC_API_KEY must differ: the public one is shown to every browser.')
  }
  return config
}

/** @throws ConfigError if lanes, shards and the home lane do not fit together */
function withLanes(settings: Static<typeof Settings>): Config {
  const LANES = settings.LANES ?? Math.max(1, journalUrls(settings).length)
  const shards = shardUrls(settings)
  if (LANES > MAX_LANES) throw new ConfigError(`REDIS_URL names ${LANES} servers; at most ${MAX_LANES} are possible.`)
  if (shards.length > LANES) {
    throw new ConfigError(
      `CLICKHOUSE_URL names ${shards.length} shards, but LANES is only ${LANES}, and each lane writes to one. Set LANES to ${shards.length} or more.`,
    )
  }
  const servers = shards
    .flat()
    .map((url) => new URL(url))
    .map(({ host, pathname }) => `${host}/${decodeURIComponent(pathname.slice(1)) || 'default'}`)
  if (new Set(servers).size < servers.length) {
    throw new ConfigError('CLICKHOUSE_URL names a server twice. Each shard and each replica needs its own.')
  }
  if (settings.HOME_LANE !== undefined && settings.HOME_LANE >= LANES) {
    throw new ConfigError(`HOME_LANE must be below the number of lanes, ${LANES}, but is ${settings.HOME_LANE}.`)
  }
  return { ...settings, LANES }
}

/**
 * The URLs of REDIS_URL: one for all lanes, or one per lane, or the seeds of a Redis Cluster. None if the journal is
 * embedded.
 */
export function journalUrls({ REDIS_URL }: Pick<Config, 'REDIS_URL'>): string[] {
  return REDIS_URL === undefined ? [] : splitUrls(REDIS_URL)
}

/** The URLs of CLICKHOUSE_URL by shard, the replicas of each. None if ClickHouse is embedded. */
export function shardUrls({ CLICKHOUSE_URL }: Pick<Config, 'CLICKHOUSE_URL'>): string[][] {
  return CLICKHOUSE_URL === undefined ? [] : splitUrls(CLICKHOUSE_URL).map(splitReplicas)
}

/** Splits a list at the commas before a scheme: `sentinel://a,b/m0,sentinel://a,b/m1` has two URLs. */
function splitUrls(text: string): string[] {
  return text.split(/,(?=[a-z]+:\/\/)/)
}

function splitReplicas(text: string): string[] {
  return text.split(/\|(?=[a-z]+:\/\/)/)
}

/** Parses VENDOR_HOSTS: by host name in lower case, the prefix of the vendor that the host serves at its root. */
export function vendorHosts({ VENDOR_HOSTS }: Pick<Config, 'VENDOR_HOSTS'>): Map<string, VendorPrefix> {
  const pairs = VENDOR_HOSTS === undefined ? [] : splitList(VENDOR_HOSTS).map((item) => item.split('='))
  return new Map(
    pairs.map(([host = '', vendor]) => [host.toLowerCase(), VENDOR_PREFIXES[vendor as keyof typeof VENDOR_PREFIXES]]),
  )
}

/** Whether the journal or ClickHouse is embedded, and so keeps its data in DATA_DIR. */
export function usesDataDir({ REDIS_URL, CLICKHOUSE_URL }: Partial<Config>): boolean {
  return REDIS_URL === undefined || CLICKHOUSE_URL === undefined
}

/** The items of a comma-separated setting. */
export function splitList(text: string): string[] {
  return text.split(',').map((part) => part.trim())
}

/** Text that does not parse as the type stays text, so that the validation reports it. */
function fromText(text: string, type: string | undefined): unknown {
  if (type === 'integer') return /^\d{1,16}$/.test(text) ? Number(text) : text
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  return text
}
