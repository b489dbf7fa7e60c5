import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { ClickHouse } from './clickhouse/client.js'
import { warnOfMissingRights } from './clickhouse/missing-rights.js'
import { openOwnStore } from './clickhouse/own-store.js'
import { BACKGROUND, type SlotLimits } from './clickhouse/read-slots.js'
import type { Shards } from './clickhouse/shards.js'
import { whenAvailable } from './clickhouse/when-available.js'
import { type Config, splitList, usesDataDir, vendorHosts } from './config.js'
import { Contexts } from './context/contexts.js'
import { GeoDatabase } from './context/geo-database.js'
import { LedgerWatch } from './damage/ledger-watch.js'
import { PartsWatch } from './damage/parts-watch.js'
import { FactCopier, type FactCopierOptions } from './facts/fact-copier.js'
import type { SessionsPace } from './facts/session-filler.js'
import { openAdmission } from './http/admission/admission.js'
import { acceptDailyVisitors, type NameVisitor } from './http/admission/daily-visitors.js'
import { countNewVisitors } from './http/admission/new-visitors.js'
import { auditCalls } from './http/audit.js'
import { allowOrigins } from './http/cross-origin.js'
import { type OpenServer, openServer } from './http/server.js'
import { CLIENT_LIMITS, type ClientLimits } from './http/socket/connection-limits.js'
import { KeyRefresh, type KeysFound } from './keys/key-refresh.js'
import { KeyRing } from './keys/key-ring.js'
import { KeyUsage } from './keys/key-usage.js'
import { DEFAULT_PROJECT, environmentKeys } from './keys/keys.js'
import type { Lane } from './lanes/lane.js'
import { openLanes, startLanes } from './lanes/lanes.js'
import { checkLayout, findLayout } from './lanes/layout.js'
import { readGuard } from './lanes/open-journal.js'
import { redisForLane } from './lanes/redis-urls.js'
import { CloseStack } from './lib/close-stack.js'
import { openLog } from './lib/log.js'
import { RecentOwners } from './lib/recent-owners.js'
import type { ThreadLoad } from './lib/thread-load.js'
import { LIVE_LIMITS, LiveHub, type LiveLimits } from './live/hub.js'
import type { Metric } from './metrics/metric.js'
import { Metrics } from './metrics/registry.js'
import { readStorage } from './metrics/storage.js'
import { hideExpiredSessions } from './projects/kept-sessions.js'
import { openProjects } from './projects/open.js'
import type { Projects } from './projects/projects.js'
import { Catalog } from './questions/catalog.js'
import { Questions } from './questions/run.js'
import { SessionFactsSource } from './questions/session-facts-source.js'
import { withAging } from './reads/aging-barrier.js'
import { EventReads } from './reads/event-reads.js'
import { FactsReader } from './reads/facts-reader.js'
import { deadLetters } from './routes/dead-letters.js'
import { docs } from './routes/docs.js'
import { events } from './routes/events.js'
import { exports } from './routes/export.js'
import { health } from './routes/health.js'
import { ids } from './routes/ids.js'
import { key } from './routes/key.js'
import { keys } from './routes/keys.js'
import { live } from './routes/live.js'
import { mcp } from './routes/mcp.js'
import { metricsRoute } from './routes/metrics.js'
import { packages } from './routes/packages.js'
import { page } from './routes/page.js'
import { project } from './routes/project.js'
import { questions } from './routes/questions.js'
import { saved } from './routes/saved.js'
import { schema } from './routes/schema.js'
import { script } from './routes/script.js'
import { sessionCalls, sessionReads } from './routes/sessions.js'
import { signIn } from './routes/sign-in.js'
import { track } from './routes/track.js'
import { users } from './routes/users.js'
import { usersBatch } from './routes/users-batch.js'
import { amplitude } from './routes/vendors/amplitude.js'
import { mixpanel } from './routes/vendors/mixpanel.js'
import { openpanel } from './routes/vendors/openpanel.js'
import { posthog } from './routes/vendors/posthog.js'
import type { VendorOptions } from './routes/vendors/protocol.js'
import { jitsu, segment } from './routes/vendors/segment.js'
import { openKeyTable } from './store/api-keys.js'
import { addAuditEntries } from './store/audit.js'
import type { SearchLimits } from './store/event-search.js'
import { MIN_EVENTS } from './store/fact-backlog.js'
import { FactRepairs } from './store/fact-repairs.js'
import { openUsageTable } from './store/key-usage.js'
import { prepareAvailable } from './store/prepare-shards.js'
import { Erasure } from './users/erasure/erasure.js'
import { ProjectErasure } from './users/erasure/project-erasure.js'
import { Purge, type PurgePace } from './users/erasure/purge.js'

const HOUR_MS = 3_600_000

export type App = FastifyInstance

export interface AppOptions {
  /** default: stdout at the configured level */
  log?: FastifyBaseLogger
  /** called once the keys have been read; if ClickHouse is unavailable, that is after buildApp has resolved */
  onKeys?: (keys: KeysFound) => void
  /** called with the URL of ClickHouse, including the password; it survives a restart of the engine */
  onClickHouse?: (url: string) => void
  /** maps the reader of this process's metrics to the reader of those that `/metrics` serves */
  shareMetrics?: (own: () => Promise<Metric[]>) => () => Promise<Metric[]>
  /** called for errors that retrying cannot fix, such as a schema that is too new; the process should end */
  onFatal?: (error: unknown) => void
  /** interval at which the keys are read, in ms; default 5000 */
  keysRefreshMs?: number
  /** interval at which the use of keys is stored, in ms; default one minute */
  keyUsageMs?: number
  /** default: `CLIENT_LIMITS` */
  clientLimits?: ClientLimits
  /** default: `SEARCH_LIMITS` */
  searchLimits?: SearchLimits
  /** returns the time, epoch ms, for questions and sign-ins to the page; default: the clock */
  now?: () => number
  /** the load that slows questions down; default: the load of this thread */
  load?: Pick<ThreadLoad, 'isShort'>
  /** how long an answer waits for its warnings, ms; default: a second */
  reviewMs?: number
  /** default: `LIVE_LIMITS` */
  liveLimits?: Partial<LiveLimits>
  /** how reads share the connections to ClickHouse; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
  /** how often a project may have its deleted data purged; default: `PURGE_PACE` */
  purgePace?: PurgePace
  /** how often to look for expired data, ms; default: an hour */
  retentionEveryMs?: number
  /** how often the session facts of a project are checked; default: `SESSIONS_PACE` */
  sessionsPace?: SessionsPace
}

/**
 * Opens the parts and registers the routes, but does not listen. `close()` of the result closes all
 * parts in reverse order.
 * @throws Error if the journal or the embedded engine cannot be opened. A ClickHouse server that is
 *   unavailable is retried in the background.
 */
export async function buildApp(config: Config, options: AppOptions = {}): Promise<App> {
  const log = options.log ?? (await openLog(config.LOG_LEVEL))
  const http = openServer(config, log, options.clientLimits ?? CLIENT_LIMITS, vendorHosts(config))
  const { server } = http
  const opened = new CloseStack()
  server.addHook('onClose', () => opened.close())
  try {
    const parts = await open(config, options, log, http, opened)
    registerOperation(server, config, parts)
    if (config.ROLE !== 'writer') {
      const contexts = await openContexts(config, parts.projects.projects, log, opened)
      registerApi(server, config, options, { ...parts, contexts, ignored: http.ignored })
    }
    await server.ready()
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}

type Parts = Awaited<ReturnType<typeof open>>

/** Opens the parts in the order of their dependencies. */
async function open(
  config: Config,
  { onKeys, onClickHouse, onFatal = () => undefined, shareMetrics = (own) => own, ...options }: AppOptions,
  log: FastifyBaseLogger,
  { server, closing, ...counts }: OpenServer,
  opened: CloseStack,
) {
  const { slotLimits, keysRefreshMs: everyMs, clientLimits = CLIENT_LIMITS } = options
  const owners = new RecentOwners()
  const { now, retentionEveryMs, sessionsPace } = options
  const own = openProjects({ log, closing, everyMs, retentionEveryMs, now })
  const store = opened.add(await openOwnStore(config, { log, slotLimits, owners, ...own.reads }))
  const { clickhouse, shards } = store
  onClickHouse?.(config.CLICKHOUSE_URL ?? store.url)
  const isWriter = config.ROLE !== 'api'
  // Opened before the lanes, so that it closes after them and records what they store last.
  const inBackground = shards.for(BACKGROUND)
  const repairs = new FactRepairs(log)
  const parts = opened.add(new PartsWatch({ shards: inBackground, log, isNoting: isWriter, repairs }))
  server.addHook('onError', async (_request, _reply, error) => parts.noteError(error))
  server.decorate('damagedPart', () => parts.unreadable)
  const layout = await findLayout(shards, config.LANES, () => readGuard(config, log))
  const lanes = opened.add(await openLanes(config, shards, { layout, log, closing, onFatal }))
  const { all, buffers, barrier, links, lateClockReads } = lanes
  const journals = all.map(({ journal }) => journal)
  const ledger = opened.add(new LedgerWatch({ shards: inBackground, journals, layout: layout.version, log }))
  const keys = openKeys(config, { clickhouse, log, closing, everyMs, usageMs: options.keyUsageMs })
  opened.add(keys.usage)
  const intervalMs = HOUR_MS * config.PURGE_INTERVAL
  const purge = opened.add(new Purge({ shards, barrier, log, intervalMs, pace: options.purgePace }))
  const questionParts = openQuestionParts(config, { shards, journals, repairs, projects: own.projects })
  const facts = opened.add(openFacts(config, { inBackground, barrier, journals, log, sessionsPace, ...questionParts }))
  const projects = own.open({ ...lanes, shards, purge })
  opened.add(projects.retention)
  let prepared: Awaited<ReturnType<typeof prepareAvailable>> | undefined
  let keysFound: KeysFound | undefined
  const start = async () => {
    if (prepared?.failure !== null) {
      prepared = await prepareAvailable(shards)
      if (!prepared.failure) await warnOfMissingRights(shards, log)
    }
    const { ready, failure } = prepared
    await checkLayout(shards, layout)
    lanes.noteLayout(layout.version === 1)
    await projects.start(isWriter)
    keysFound ??= await keys.refresh.start(DEFAULT_PROJECT)
    onKeys?.(keysFound)
    onKeys = undefined
    await parts.start(() => storedRows(all))
    const missing = await startLanes(shards, {
      lanes: all.filter(({ shard }) => ready.includes(shard)),
      isWriter,
    })
    // The lanes of a shard that is down are started when it is back.
    if (failure) throw failure
    if (isWriter) {
      for (const part of [purge, facts, lanes.settling, ledger]) part.start()
    }
    // The same applies to lanes that are down themselves.
    if (missing) throw missing
  }
  await whenAvailable(start, { log, signal: closing, onFatal })
  // Requests are counted in one place, no matter which lane they write to.
  const counting = { ...config, REDIS_URL: config.REDIS_URL && (await redisForLane(config, 0)) }
  const admission = opened.add(
    await openAdmission(server, counting, { ...keys, buffers, owners, clientLimits, log, now }),
  )
  const limits = { ...toLiveLimits(config), ...options.liveLimits }
  const live = new LiveHub({ shards, barrier, journals, limits, log, closing })
  const storage = () => readStorage(store, usesDataDir(config) ? config.DATA_DIR : null)
  const counted = {
    ...counts,
    admission,
    lanes: all,
    links,
    lateClockReads,
    live,
    parts,
    ledger,
    quotas: projects.quotas,
    facts,
  }
  const metrics = opened.add(new Metrics({ role: config.ROLE, storage, ...counted }))
  const read = shareMetrics(() => metrics.read())
  const stored = { store, lanes, journals, parts, ledger, purge }
  return { ...stored, projects, admission, live, closing, keys, questionParts, metrics: { read } }
}

interface KeysOptions {
  clickhouse: ClickHouse
  log: FastifyBaseLogger
  closing: AbortSignal
  everyMs: number | undefined
  usageMs: number | undefined
}

/** Opens the parts that know the keys. Before `refresh.start`, only those of the environment are known. */
function openKeys(config: Config, { clickhouse, log, closing, everyMs, usageMs }: KeysOptions) {
  const fixed = environmentKeys(config)
  const ring = new KeyRing(fixed)
  const refresh = new KeyRefresh({ ring, table: openKeyTable(clickhouse), log, closing, everyMs })
  const usage = new KeyUsage({ table: openUsageTable(clickhouse), log, closing, everyMs: usageMs })
  return { fixed, keys: ring, refresh, usage }
}

/**
 * Whether questions read facts. Not with replicas: after a switch to another server, a step may still be running on the
 * old one, and its rows would be added to those of the repeated step.
 */
function usesFacts({ FACTS }: Config, shards: Shards): boolean {
  return FACTS !== 'off' && shards.all.every(({ clickhouse }) => !clickhouse.hasReplicas)
}

/** Opens the data that questions read in addition to events: facts and project settings. */
function openQuestionParts(
  config: Config,
  {
    shards,
    journals,
    repairs,
    projects,
  }: {
    shards: Shards
    journals: ConstructorParameters<typeof FactsReader>[1]
    repairs: FactRepairs
    projects: Projects
  },
) {
  return {
    shards,
    facts: usesFacts(config, shards) ? new FactsReader(shards, journals, repairs) : undefined,
    getSettings: (projectId: string) => projects.get(projectId).settings,
    getExpiry: (projectId: string) => {
      const { events, sessions } = projects.kept(projectId)
      const latest = Math.max(events ?? 0, sessions ?? 0)
      return latest > 0 ? latest : null
    },
  }
}

interface FactsOptions
  extends Pick<FactCopierOptions, 'barrier' | 'journals' | 'log' | 'sessionsPace'>,
    ReturnType<typeof openQuestionParts> {
  /** the shards, for background work */
  inBackground: Shards
}

/** Opens the copiers, which copy the events of each shard into facts. */
function openFacts(config: Config, { shards, inBackground, facts, getSettings, getExpiry, ...parts }: FactsOptions) {
  const minEvents = config.FACTS === 'all' ? 0 : MIN_EVENTS
  const isOn = usesFacts(config, shards)
  // The events of a session may be on several shards.
  const hasSessions = facts && !shards.areSeveral
  const sessions = hasSessions ? new SessionFactsSource({ shards, facts, getSettings, getExpiry }) : undefined
  const options = { ...parts, isOn, minEvents, sessions, isShared: config.REDIS_URL !== undefined }
  const copiers = inBackground.all.map(({ clickhouse }) => new FactCopier({ ...options, clickhouse }))
  return {
    get waiting() {
      return copiers.map(({ waiting }) => waiting)
    },
    get shortOfDisk() {
      return copiers.map(({ isShortOfDisk }) => isShortOfDisk)
    },
    start: () => {
      for (const copier of copiers) copier.start()
    },
    close: async () => {
      await Promise.all(copiers.map((copier) => copier.close()))
    },
  }
}

/** @throws Error if GEO_DATABASE cannot be read */
async function openContexts(config: Config, projects: Projects, log: FastifyBaseLogger, opened: CloseStack) {
  const { CONTEXT, GEO_DATABASE, TRUST_PROXY } = config
  return new Contexts({
    mode: (projectId) => (projects.areKnown ? (projects.get(projectId).settings.context ?? CONTEXT) : 'off'),
    countryHeaders: splitList(config.COUNTRY_HEADERS.toLowerCase()),
    proxies: TRUST_PROXY === undefined ? [] : splitList(TRUST_PROXY),
    geo: GEO_DATABASE === undefined ? null : opened.add(await GeoDatabase.open(GEO_DATABASE, { log })),
  })
}

function toLiveLimits({ MAX_LIVE_STREAMS: listeners, MAX_PROJECT_LIVE_STREAMS: perProject }: Config) {
  return { listeners, perProject, ...LIVE_LIMITS }
}

/** Events and rows that this process has stored. */
function storedRows(lanes: readonly Lane[]): number {
  const counts = lanes.flatMap(({ writer }) => Object.values(writer.metrics.stored))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** Every role serves these, without a key. */
function registerOperation(server: App, { ROLE }: Config, { store, journals, parts, ledger, metrics }: Parts): void {
  server.register(health, {
    lanes: journals.map((journal) => () => journal.ping()),
    shards: store.shards.areSeveral
      ? store.shards.all.map((shard) => () => shard.clickhouse.ping())
      : [() => store.ping()],
    lostParts: () => parts.losses.length,
    missingEvents: () => ledger.missing,
  })
  server.register(metricsRoute, metrics)
  const api = ROLE === 'writer' ? {} : { docs: '/docs', openapi: '/openapi.json' }
  server.register(page, {
    isServed: ROLE !== 'writer',
    links: { ...api, health: '/health/ready', metrics: '/metrics' },
  })
}

function registerVendors(server: App, options: VendorOptions): void {
  for (const routes of [segment, jitsu, posthog, mixpanel, amplitude, openpanel]) server.register(routes, options)
}

function registerApi(
  server: App,
  config: Config,
  { searchLimits, now, load, reviewMs }: AppOptions,
  { ignored, ...parts }: Parts & { contexts: Contexts } & Pick<OpenServer, 'ignored'>,
): void {
  const { log } = server
  const { purge, admission, contexts, lanes, store, journals } = parts
  const { projects, limited: commits, visitors, ...own } = parts.projects
  const nameVisitor: NameVisitor = (visit) => visitors.name(visit)
  const { shards } = store
  const { buffers, profiles, aliases, links, entries, noteDeletion } = lanes
  const keptSince = (projectId: string, at?: number) => projects.kept(projectId, at).events
  const barrier = withAging(lanes.barrier, keptSince)
  const sessions = hideExpiredSessions(lanes.sessions, (projectId) => projects.kept(projectId).sessions)
  const { BATCH_BODY_LIMIT: bodyLimit, MAX_PROPERTY_DEPTH: maxDepth } = config
  const origins = splitList(config.CORS_ORIGIN)
  const asked = new Questions({
    ...parts.questionParts,
    barrier,
    aliases,
    limits: config,
    now,
    load,
    reviewMs,
  })
  const catalog = new Catalog({ shards, barrier, questions: asked, log })
  server.addHook('onListen', () => {
    catalog.prepare(parts.closing)
  })
  const reads = new EventReads(shards, barrier, searchLimits)
  const erasing = { shards, barrier, aliases, profiles, sessions: lanes.sessions, noteDeletion }
  const erasure = new Erasure(erasing)
  const projectErasure = new ProjectErasure({ ...erasing, ids: lanes.ids })
  const deletesEvents = config.DELETE_USER_EVENTS

  server.register(docs)
  server.register(packages)
  server.register(script, { path: config.SCRIPT_PATH })
  server.register(signIn, { admission, projects })
  const people = { profiles, aliases, links, barrier }
  const scriptsIn = config.VENDOR_SCRIPTS ?? process.cwd()
  const intake = { admission, contexts, buffers, commits, bodyLimit, maxDepth, keptSince, ids: lanes.ids }
  registerVendors(server, { ...intake, scriptsIn, ...people })
  server.register(async (scope) => {
    admission.guard(scope, ['application/json'])
    scope.register(mcp, { questions: asked, catalog, reads, profiles, aliases })
  })
  server.register(
    async (scope) => {
      allowOrigins(scope, origins)
      admission.guard(scope, ['application/json'])
      acceptDailyVisitors(scope, nameVisitor)
      countNewVisitors(scope)
      auditCalls(scope, (entry) => addAuditEntries(shards, [entry]))
      scope.register(track, { ...intake, ignored, journals, shards, barrier })
      scope.register(exports, { shards, barrier })
      scope.register(events, { shards, reads, entries, noteDeletion, maxDepth, keptSince })
      scope.register(questions, { questions: asked, catalog })
      scope.register(schema, { catalog })
      scope.register(saved, { shards, questions: asked, catalog, now })
      scope.register(live, { live: parts.live, admission })
      scope.register(users, { ...people, shards, erasure, purge, questions: asked, deletesEvents })
      scope.register(usersBatch, { ...people, admission, bodyLimit, maxDepth })
      scope.register(sessionReads, { sessions, shards, barrier })
      scope.register(deadLetters, { shards, barrier, noteDeletion, retention: own.retention })
      scope.register(key)
      scope.register(keys, { shards, ...parts.keys })
      scope.register(project, { ...own, projects, shards, projectErasure, purge })
      scope.register(ids, { ids: lanes.ids })
    },
    { prefix: '/public' },
  )
  server.register(
    async (browser) => {
      allowOrigins(browser, origins)
      // navigator.sendBeacon can send nothing but text/plain without a preflight.
      admission.guard(browser, ['application/json', 'text/plain'])
      acceptDailyVisitors(browser, nameVisitor)
      countNewVisitors(browser)
      browser.register(sessionCalls, { sessions, aliases, contexts })
    },
    { prefix: '/public/sessions' },
  )
}
