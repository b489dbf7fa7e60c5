import { join } from 'node:path'
import compress from '@fastify/compress'
import cors from '@fastify/cors'
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { ClickHouse } from './clickhouse/client.js'
import { type FolderLock, lockDataFolder } from './clickhouse/embedded/data-dir.js'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './clickhouse/embedded/engine.js'
import { isFatal } from './clickhouse/errors.js'
import { migrate } from './clickhouse/migrate.js'
import type { SlotLimits } from './clickhouse/read-slots.js'
import { type Config, splitList } from './config.js'
import { Erasure } from './erasure/erasure.js'
import { Purge } from './erasure/purge.js'
import { Authentication } from './http/authenticate.js'
import { acceptJson, normalizeCodings } from './http/body.js'
import { BodyBudget } from './http/body-budget.js'
import {
  CLIENT_LIMITS,
  type ClientLimits,
  cutOffSlowReader,
  limitConnections,
  resetBrokenResponse,
  serverLimits,
} from './http/connection-limits.js'
import { handleErrors, refuseMalformedRequest, sendError } from './http/error-handler.js'
import { documentation } from './http/openapi/document.js'
import { type Counters, limitRate, openCounters, registerRateLimit } from './http/rate-limits.js'
import { RequestLog } from './http/request-log.js'
import { countRequests, type RequestMetrics } from './http/request-metrics.js'
import { SessionCalls } from './http/session-calls.js'
import { validatorCompiler } from './http/validator.js'
import { WrongKeys } from './http/wrong-keys.js'
import type { Journal } from './journal/journal.js'
import { KeyRefresh, type KeysFound, type KeyTable } from './keys/key-refresh.js'
import { KeyRing } from './keys/key-ring.js'
import { environmentKeys, type KeyKind } from './keys/keys.js'
import { type Backoff, retry } from './lib/backoff.js'
import { BufferPool } from './lib/buffer-pool.js'
import { ByteBudget } from './lib/byte-budget.js'
import { openLog } from './lib/log.js'
import { Metrics } from './metrics/registry.js'
import { readStorage } from './metrics/storage.js'
import { MAX_SESSION_BYTES } from './model/session.js'
import { GroupCommit } from './pipeline/group-commit.js'
import { openJournal } from './pipeline/open-journal.js'
import { ReadBarrier } from './pipeline/read-barrier.js'
import { StateStore } from './pipeline/state-store.js'
import { Writer } from './pipeline/writer.js'
import { docs } from './routes/docs.js'
import { events } from './routes/events.js'
import { health } from './routes/health.js'
import { metricsRoute } from './routes/metrics.js'
import { root } from './routes/root.js'
import { sessionCalls, sessionReads } from './routes/sessions.js'
import { track } from './routes/track.js'
import { users } from './routes/users.js'
import { insertKeys, listKeys, readKeys } from './store/api-keys.js'
import { EventEdits } from './store/event-edits.js'
import type { SearchLimits } from './store/event-search.js'
import { takeOver } from './store/journals.js'
import { openTables, type StoreTables } from './store/tables.js'

/** The project of the keys in the environment, and of the pair that the first start makes. */
const DEFAULT_PROJECT = 'default'
const STORE_BACKOFF: Backoff = { firstMs: 500, maxMs: 2_000 }
const HOUR_MS = 3_600_000
/** How long requests that are under way may take at the end. */
const LAST_REQUESTS_MS = 2_000
/** What a page's script may read of an answer's headers. */
const EXPOSED = ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']
/** Profiles and sessions that a process changes at a time, in bytes; of each there are some four copies meanwhile. */
const STATE_MEMORY_BYTES = 32 * 1024 * 1024
/** What the writer still stores at the end; the rest waits in the journal for the next start. */
const FLUSH_LIMIT_MS = 1_500

export interface AppOptions {
  /** by default, stdout at the configured level */
  log?: FastifyBaseLogger
  /** told once the keys are read, which is later than buildApp's end where ClickHouse is unavailable */
  onKeys?: (keys: KeysFound) => void
  /** told where ClickHouse is, password included; the embedded engine goes on there whenever it is started again */
  onClickHouse?: (url: string) => void
  /** given what tells the figures of this process, returns what tells those that `/metrics` answers */
  shareMetrics?: (own: () => Promise<string>) => () => Promise<string>
  /** told of what waiting does not help against, such as a schema that is too new; the process should end */
  onFatal?: (error: unknown) => void
  /** how often the keys are read again, in ms; default 5000 */
  keysRefreshMs?: number
  /** default: `CLIENT_LIMITS` */
  clientLimits?: ClientLimits
  /** default: `SEARCH_LIMITS` */
  searchLimits?: SearchLimits
  /** how reads share the connections to ClickHouse; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
}

/**
 * Opens what the configuration asks for and registers the routes; listens to nothing. `server.close()` releases
 * everything, in the reverse order.
 * @throws where the journal or the embedded engine cannot be opened; a ClickHouse server that is away is waited for
 */
export async function buildApp(config: Config, options: AppOptions = {}): Promise<FastifyInstance> {
  const log = options.log ?? (await openLog(config.LOG_LEVEL))
  const requestLog = new RequestLog(log)
  const limits = options.clientLimits ?? CLIENT_LIMITS
  const { http, ...timeouts } = serverLimits(limits)
  const server = Fastify({
    // With a logger, Fastify makes a child of it and two listeners for each request. What fails is logged by requestLog.
    logger: false,
    logController: requestLog,
    genReqId: (raw) => requestLog.idOf(raw),
    bodyLimit: config.BODY_LIMIT,
    trustProxy: config.TRUST_PROXY ?? false,
    // A user's id in a path may be 255 characters of up to 12 bytes each when escaped.
    routerOptions: { maxParamLength: 4096 },
    forceCloseConnections: 'idle',
    ...timeouts,
    // Node would refuse a request without the header itself, in another shape.
    http: { ...http, requireHostHeader: false },
    // Requests that come while the server closes are answered like any other.
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => {
      sendError(error, request, reply, () => {
        // No hook runs for a URL that the router cannot read.
        requestLog.conclude(request, reply)
        requests.unmatched.count(reply.statusCode, 0)
      })
    },
    clientErrorHandler: (error, socket) => refuseMalformedRequest(error, socket, requestLog),
  }).withTypeProvider<TypeBoxTypeProvider>()
  // For all but requests, whose `log` stays mute.
  server.log = log
  server.setValidatorCompiler(validatorCompiler(config.MAX_PROPERTY_DEPTH))
  server.decorateRequest('projectId', '')
  server.decorateRequest('keyId', '')
  server.decorateRequest('rawBody')
  server.decorateRequest('key')
  requestLog.watch(server)
  const requests = countRequests(server)
  limitConnections(server.server, config.MAX_CONNECTIONS, log)

  const closers: (() => Promise<unknown>)[] = []
  const closing = new AbortController()
  server.addHook('preClose', async () => {
    closing.abort()
    // Whoever has not sent a request's end by then gets no answer; else one could hold up the end.
    setTimeout(() => server.server.closeAllConnections(), LAST_REQUESTS_MS).unref()
  })
  server.addHook('onSend', (request, reply, payload, done) => {
    cutOffSlowReader(payload, limits)
    resetBrokenResponse(payload, request)
    // An idle keep-alive connection would hold up the end.
    if (closing.signal.aborted) reply.header('connection', 'close')
    done()
  })
  server.addHook('onClose', async () => {
    for (const close of closers.reverse()) await close()
  })

  try {
    const parts = await open(config, log, closers, closing.signal, options)
    register(server, config, parts, requests, closers, options)
    await server.ready()
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}

interface Parts {
  journal: Journal
  clickhouse: ClickHouse
  embedded: EmbeddedClickHouse | null
  tables: StoreTables
  memory: BufferPool
  commits: GroupCommit
  writer: Writer
  keys: KeyRing
  barrier: ReadBarrier
  purge: Purge
  /** where the requests of keys are counted; null where they are not, or in this process */
  counters: Counters | null
  log: FastifyBaseLogger
}

/** Opens the parts in the order in which they need each other; who opens one adds how it is closed. */
async function open(
  config: Config,
  log: FastifyBaseLogger,
  closers: (() => Promise<unknown>)[],
  closing: AbortSignal,
  { onKeys, onClickHouse, onFatal = () => undefined, keysRefreshMs, slotLimits }: AppOptions,
): Promise<Parts> {
  let folder: FolderLock | null = null
  if (config.REDIS_URL === undefined || config.CLICKHOUSE_URL === undefined) {
    folder = await lockDataFolder(config.DATA_DIR)
    closers.push(folder.release)
  }

  let embedded: EmbeddedClickHouse | null = null
  if (config.CLICKHOUSE_URL === undefined) {
    embedded = await startEmbeddedClickHouse({ path: join(config.DATA_DIR, 'clickhouse'), log })
    closers.push(embedded.close)
    await folder?.announce(embedded.url)
  }
  const clickhouseUrl = config.CLICKHOUSE_URL ?? embedded?.url ?? ''
  onClickHouse?.(clickhouseUrl)
  const clickhouse = new ClickHouse({ url: clickhouseUrl, ...(slotLimits && { slotLimits }) })
  closers.push(() => clickhouse.close())

  const journal = await openJournal(config, log, clickhouse)
  closers.push(() => journal.close())

  const keys = new KeyRing(environmentKeys(config, DEFAULT_PROJECT))
  const keyRefresh = new KeyRefresh({ ring: keys, table: keyTable(clickhouse), log, closing, everyMs: keysRefreshMs })
  const tables = openTables(clickhouse, journal.id)
  const writer = new Writer({ journal, tables, log })
  closers.push(() => writer.close(FLUSH_LIMIT_MS))
  const memory = new BufferPool()
  const commits = new GroupCommit(journal, memory)
  closers.push(() => commits.close())

  const barrier = new ReadBarrier(journal, closing)
  const purge = new Purge({ clickhouse, barrier, log, intervalMs: HOUR_MS * config.PURGE_INTERVAL })
  closers.push(async () => purge.close())

  const useStore = async () => {
    await migrate(clickhouse)
    await takeOver(clickhouse, journal, Date.now())
    const found = await keyRefresh.start(DEFAULT_PROJECT)
    onKeys?.(found)
    if (config.ROLE === 'api') return
    writer.start()
    purge.start()
  }
  try {
    await useStore()
  } catch (error) {
    if (isFatal(error)) throw error
    log.warn({ err: error }, 'ClickHouse is unavailable; accepted events wait in the journal')
    retry(useStore, {
      backoff: STORE_BACKOFF,
      signal: closing,
      failures: 1,
      isRetryable: (error) => !isFatal(error),
      onFailure: (error, next) => log.warn({ err: error, ...next }, 'ClickHouse is still unavailable'),
    }).then((isUsed) => {
      if (isUsed) log.info('ClickHouse is available again')
    }, onFatal)
  }
  let counters: Counters | null = null
  if (config.RATE_LIMIT > 0 && config.REDIS_URL !== undefined) {
    counters = await openCounters(config.REDIS_URL, log)
    closers.push(async () => counters?.disconnect())
  }
  return { journal, clickhouse, embedded, tables, memory, commits, writer, keys, barrier, purge, counters, log }
}

function register(
  server: FastifyInstance,
  config: Config,
  parts: Parts,
  requests: RequestMetrics,
  closers: (() => Promise<unknown>)[],
  { shareMetrics = (own) => own, clientLimits = CLIENT_LIMITS, searchLimits }: AppOptions,
): void {
  const { journal, clickhouse, embedded, tables, memory, commits, writer, keys, barrier, purge, counters, log } = parts
  const states = new ByteBudget(STATE_MEMORY_BYTES)
  const profiles = new StateStore(journal, commits, tables.profiles, {
    maxBytes: config.MAX_PROFILE_BYTES,
    memory: states,
  })
  const sessions = new StateStore(journal, commits, tables.sessions, { maxBytes: MAX_SESSION_BYTES, memory: states })
  const edits = new EventEdits(clickhouse)
  const erasure = new Erasure({ journal, clickhouse, profiles, sessions, barrier })

  handleErrors(server)
  // Before the routes, which it describes.
  server.register(swagger, documentation)
  normalizeCodings(server)
  // Bodies only: the limit on a body holds for its inflated size.
  server.register(compress, { global: false, globalDecompression: true })
  server.register(health, {
    checks: {
      journal: () => journal.ping(),
      store: async () => {
        if (embedded && embedded.state() !== 'up') throw new Error(`the embedded ClickHouse is ${embedded.state()}`)
        await clickhouse.ping()
      },
    },
  })
  const metrics = new Metrics({
    role: config.ROLE,
    requests,
    commits: commits.metrics,
    writer: writer.metrics,
    states: { profiles: profiles.metrics, sessions: sessions.metrics },
    journal,
    storage: () => readStorage(clickhouse, usesDataDir(config) ? config.DATA_DIR : null),
  })
  closers.push(async () => metrics.close())
  server.register(metricsRoute, { contentType: metrics.contentType, figures: shareMetrics(() => metrics.text()) })
  const operation = { health: '/health/ready', metrics: '/metrics' }
  if (config.ROLE === 'writer') {
    server.register(root, { links: operation })
    return
  }

  server.register(root, { links: { docs: '/docs', openapi: '/openapi.json', ...operation } })
  server.register(docs)
  const { RATE_LIMIT: max, RATE_LIMIT_WINDOW: seconds } = config
  if (max > 0) registerRateLimit(server, { max, windowMs: 1000 * seconds }, counters)
  const wrongKeys = new WrongKeys(config.WRONG_KEY_LIMIT, log)
  const intake = { pool: memory, budget: new BodyBudget(config.BODY_MEMORY), clientLimits }
  /** Calls with a key of this kind, and bodies of these types. */
  const admit = (scope: FastifyInstance, kind: KeyKind, contentTypes: string[]) => {
    const authentication = new Authentication(keys, kind, wrongKeys)
    scope.addHook('preParsing', authentication.beforeBody)
    acceptJson(scope, contentTypes, intake, authentication)
    scope.addHook('preValidation', authentication.afterBody)
    if (max > 0) scope.addHook('preValidation', limitRate(scope, log))
  }

  server.register(
    async (secret) => {
      admit(secret, 'secret', ['application/json'])
      const limits = { batchBodyLimit: config.BATCH_BODY_LIMIT, maxPropertyDepth: config.MAX_PROPERTY_DEPTH }
      secret.register(track, { journal, commits, ...limits })
      secret.register(events, { journal, clickhouse, edits, barrier, searchLimits })
      const deletesEvents = config.DELETE_USER_EVENTS
      secret.register(users, { profiles, clickhouse, barrier, erasure, purge, deletesEvents })
      secret.register(sessionReads, { sessions, clickhouse, barrier })
    },
    { prefix: '/public' },
  )
  server.register(
    async (browser) => {
      browser.register(cors, {
        origin: config.CORS_ORIGIN === '*' ? '*' : splitList(config.CORS_ORIGIN),
        methods: ['POST'],
        exposedHeaders: EXPOSED,
        strictPreflight: false,
      })
      // navigator.sendBeacon can send nothing but text/plain without a preflight.
      admit(browser, 'public', ['application/json', 'text/plain'])
      const limit = { ofAddress: config.SESSION_ADDRESS_LIMIT, ofKey: config.SESSION_KEY_LIMIT }
      browser.register(sessionCalls, { sessions, calls: new SessionCalls(limit, log) })
    },
    // Not just /public, whose other calls no page of another origin is to make.
    { prefix: '/public/sessions' },
  )
}

/** Whether there is an embedded part, which keeps its data there. */
function usesDataDir({ REDIS_URL, CLICKHOUSE_URL }: Config): boolean {
  return REDIS_URL === undefined || CLICKHOUSE_URL === undefined
}

function keyTable(clickhouse: ClickHouse): KeyTable {
  return {
    read: () => readKeys(clickhouse),
    isEmpty: async () => (await listKeys(clickhouse)).length === 0,
    insert: (keys) => insertKeys(clickhouse, keys, Date.now()),
  }
}
