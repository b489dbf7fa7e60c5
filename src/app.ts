import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { migrate } from './clickhouse/migrate.js'
import { type OwnStore, openOwnStore } from './clickhouse/own-store.js'
import type { SlotLimits } from './clickhouse/read-slots.js'
import { whenAvailable } from './clickhouse/when-available.js'
import { type Config, splitList, usesDataDir } from './config.js'
import { Erasure } from './erasure/erasure.js'
import { Purge } from './erasure/purge.js'
import { type Admission, allowOrigins, openAdmission } from './http/admission.js'
import { CLIENT_LIMITS, type ClientLimits } from './http/connection-limits.js'
import { type OpenServer, openServer } from './http/server.js'
import { SessionCalls } from './http/session-calls.js'
import { KeyRefresh, type KeysFound } from './keys/key-refresh.js'
import { KeyRing } from './keys/key-ring.js'
import { environmentKeys } from './keys/keys.js'
import { CloseStack } from './lib/close-stack.js'
import { openLog } from './lib/log.js'
import type { Metric } from './metrics/metric.js'
import { Metrics } from './metrics/registry.js'
import { readStorage } from './metrics/storage.js'
import { type Lane, openLane } from './pipeline/lane.js'
import { docs } from './routes/docs.js'
import { events } from './routes/events.js'
import { health } from './routes/health.js'
import { type MetricsOptions, metricsRoute } from './routes/metrics.js'
import { root } from './routes/root.js'
import { sessionCalls, sessionReads } from './routes/sessions.js'
import { track } from './routes/track.js'
import { users } from './routes/users.js'
import { keyTable } from './store/api-keys.js'
import { EventEdits } from './store/event-edits.js'
import type { SearchLimits } from './store/event-search.js'
import { takeOver } from './store/journals.js'

/** The project of the keys in the environment, and of the first pair. */
const DEFAULT_PROJECT = 'default'
const HOUR_MS = 3_600_000

export type App = FastifyInstance

export interface AppOptions {
  /** default: stdout at the configured level */
  log?: FastifyBaseLogger
  /** called once the keys are read, which is after buildApp resolves if ClickHouse is unavailable */
  onKeys?: (keys: KeysFound) => void
  /** called with the URL of ClickHouse, password included; it stays the same when the embedded engine restarts */
  onClickHouse?: (url: string) => void
  /** takes what reads the metrics of this process; returns what reads those that `/metrics` serves */
  shareMetrics?: (own: () => Promise<Metric[]>) => () => Promise<Metric[]>
  /** called on an error that retrying cannot help, such as a schema that is too new; the process should end */
  onFatal?: (error: unknown) => void
  /** interval at which the keys are read, in ms; default 5000 */
  keysRefreshMs?: number
  /** default: `CLIENT_LIMITS` */
  clientLimits?: ClientLimits
  /** default: `SEARCH_LIMITS` */
  searchLimits?: SearchLimits
  /** how reads share the connections to ClickHouse; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
}

/**
 * Opens the parts that the configuration names and registers the routes. Does not listen. `close()` of the result closes
 * everything in reverse order.
 * @throws Error if the journal or the embedded engine cannot be opened; an unavailable ClickHouse server is retried
 */
export async function buildApp(config: Config, options: AppOptions = {}): Promise<App> {
  const log = options.log ?? (await openLog(config.LOG_LEVEL))
  const http = openServer(config, log, options.clientLimits ?? CLIENT_LIMITS)
  const { server } = http
  const opened = new CloseStack()
  server.addHook('onClose', () => opened.close())
  try {
    const parts = await open(config, options, log, http, opened)
    registerOperation(server, config, parts)
    if (config.ROLE !== 'writer') registerApi(server, config, options, parts)
    await server.ready()
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}

interface Parts {
  store: OwnStore
  lane: Lane
  purge: Purge
  admission: Admission
  metrics: MetricsOptions
}

/** Opens the parts in the order of their dependencies. */
async function open(
  config: Config,
  { onKeys, onClickHouse, onFatal = () => undefined, shareMetrics = (own) => own, ...options }: AppOptions,
  log: FastifyBaseLogger,
  { server, requests, closing }: OpenServer,
  opened: CloseStack,
): Promise<Parts> {
  const { slotLimits, keysRefreshMs: everyMs, clientLimits = CLIENT_LIMITS } = options
  const store = opened.add(await openOwnStore(config, { log, slotLimits }))
  const { clickhouse } = store
  onClickHouse?.(store.url)
  const lane = opened.add(await openLane(config, clickhouse, { log, closing }))
  const { journal, buffers, writer, barrier } = lane
  const keys = new KeyRing(environmentKeys(config, DEFAULT_PROJECT))
  const keyRefresh = new KeyRefresh({ ring: keys, table: keyTable(clickhouse), log, closing, everyMs })
  const purge = opened.add(new Purge({ clickhouse, barrier, log, intervalMs: HOUR_MS * config.PURGE_INTERVAL }))
  const start = async () => {
    await migrate(clickhouse)
    await takeOver(clickhouse, journal, Date.now())
    const found = await keyRefresh.start(DEFAULT_PROJECT)
    onKeys?.(found)
    if (config.ROLE === 'api') return
    writer.start()
    purge.start()
  }
  await whenAvailable(start, { log, signal: closing, onFatal })
  const admission = opened.add(await openAdmission(server, config, { keys, buffers, clientLimits, log }))
  const storage = () => readStorage(clickhouse, usesDataDir(config) ? config.DATA_DIR : null)
  const metrics = opened.add(new Metrics({ role: config.ROLE, requests, admission, lane, storage }))
  return { store, lane, purge, admission, metrics: { read: shareMetrics(() => metrics.read()) } }
}

/** Every role serves these, without a key. */
function registerOperation(server: App, { ROLE }: Config, { store, lane, metrics }: Parts): void {
  server.register(health, { checks: { journal: () => lane.journal.ping(), store: () => store.ping() } })
  server.register(metricsRoute, metrics)
  const operation = { health: '/health/ready', metrics: '/metrics' }
  const links = ROLE === 'writer' ? operation : { docs: '/docs', openapi: '/openapi.json', ...operation }
  server.register(root, { links })
}

function registerApi(server: App, config: Config, { searchLimits }: AppOptions, parts: Parts): void {
  const { lane, purge, admission } = parts
  const { clickhouse } = parts.store
  server.register(docs)
  server.register(
    async (secret) => {
      admission.guard(secret, 'secret', ['application/json'])
      const { BATCH_BODY_LIMIT: batchBodyLimit, MAX_PROPERTY_DEPTH: maxPropertyDepth } = config
      secret.register(track, { ...lane, batchBodyLimit, maxPropertyDepth })
      secret.register(events, { ...lane, clickhouse, edits: new EventEdits(clickhouse), searchLimits })
      const erasure = new Erasure({ ...lane, clickhouse })
      secret.register(users, { ...lane, clickhouse, erasure, purge, deletesEvents: config.DELETE_USER_EVENTS })
      secret.register(sessionReads, { ...lane, clickhouse })
    },
    { prefix: '/public' },
  )
  server.register(
    async (browser) => {
      allowOrigins(browser, splitList(config.CORS_ORIGIN))
      // navigator.sendBeacon can send nothing but text/plain without a preflight.
      admission.guard(browser, 'public', ['application/json', 'text/plain'])
      const limit = { ofAddress: config.SESSION_ADDRESS_LIMIT, ofKey: config.SESSION_KEY_LIMIT }
      browser.register(sessionCalls, { ...lane, calls: new SessionCalls(limit, server.log) })
    },
    // Not /public: pages of other origins must not make the other calls.
    { prefix: '/public/sessions' },
  )
}
