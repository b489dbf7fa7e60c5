import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { type Config, splitList, vendorHosts } from './config.js'
import { Contexts } from './context/contexts.js'
import { GeoDatabase } from './context/geo-database.js'
import { acceptDailyVisitors, type NameVisitor } from './http/admission/daily-visitors.js'
import { countNewVisitors } from './http/admission/new-visitors.js'
import { auditCalls } from './http/audit.js'
import { allowOrigins } from './http/cross-origin.js'
import { type OpenServer, openServer } from './http/server.js'
import { CLIENT_LIMITS } from './http/socket/connection-limits.js'
import { CloseStack } from './lib/close-stack.js'
import { type Log, openLog } from './lib/log.js'
import type { ThreadLoad } from './lib/thread-load.js'
import { openParts, type Parts, type PartsOptions } from './parts.js'
import { hideExpiredSessions } from './projects/kept-sessions.js'
import type { Projects } from './projects/projects.js'
import { Catalog } from './questions/catalog.js'
import { Questions } from './questions/run.js'
import { EventReads } from './reads/event-reads.js'
import { withAging } from './reads/read-barrier.js'
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
import { userChanges, userReads } from './routes/users.js'
import { usersBatch } from './routes/users-batch.js'
import { amplitude } from './routes/vendors/amplitude.js'
import { mixpanel } from './routes/vendors/mixpanel.js'
import { openpanel } from './routes/vendors/openpanel.js'
import { posthog } from './routes/vendors/posthog.js'
import type { VendorOptions } from './routes/vendors/protocol.js'
import { jitsu, segment } from './routes/vendors/segment.js'
import { addAuditEntries } from './store/audit.js'
import type { SearchLimits } from './store/event-search.js'
import { Erasure } from './users/erasure/erasure.js'
import { ProjectErasure } from './users/erasure/project-erasure.js'

export type App = FastifyInstance

export interface AppOptions extends PartsOptions {
  /** default: stdout at the configured level */
  log?: FastifyBaseLogger
  /** default: `SEARCH_LIMITS` */
  searchLimits?: SearchLimits
  /** the load that slows questions down; default: the load of this thread */
  load?: Pick<ThreadLoad, 'isShort'>
  /** how long an answer waits for its warnings, ms; default: a second */
  reviewMs?: number
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
    const parts = await openParts(config, options, { http, log, opened })
    registerOperation(server, config, parts)
    if (config.ROLE !== 'writer') {
      const contexts = await openContexts(config, parts.projects.projects, log, opened)
      const api = openApi(config, options, parts, log)
      registerApi(server, { config, http, parts, contexts, api, now: options.now })
    }
    await server.ready()
    return server
  } catch (error) {
    await server.close()
    throw error
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

/** Every role serves these, without a key. */
function registerOperation(server: App, { ROLE }: Config, parts: Parts): void {
  const { shards } = parts.store
  server.register(health, {
    lanes: parts.journals.map((journal) => () => journal.ping()),
    shards: shards.areSeveral ? shards.all.map((shard) => () => shard.clickhouse.ping()) : [() => parts.store.ping()],
    lostParts: () => parts.partsWatch.losses.length,
    missingEvents: () => parts.ledger.missing,
  })
  server.register(metricsRoute, { read: parts.readMetrics })
  const api = ROLE === 'writer' ? {} : { docs: '/docs', openapi: '/openapi.json' }
  server.register(page, {
    isServed: ROLE !== 'writer',
    links: { ...api, health: '/health/ready', metrics: '/metrics' },
  })
}

/** Opens what only the API uses. */
function openApi(config: Config, options: AppOptions, { store, lanes, questionSources, ...parts }: Parts, log: Log) {
  const { shards } = store
  const { aliases, profiles, noteDeletion, ids } = lanes
  const { projects, visitors } = parts.projects
  const keptSince = (projectId: string, at?: number) => projects.kept(projectId, at).events
  const barrier = withAging(lanes.barrier, keptSince)
  const sessions = hideExpiredSessions(lanes.sessions, projects, options.now)
  const questionRunner = new Questions({
    shards,
    barrier,
    aliases,
    facts: questionSources.facts,
    getSettings: questionSources.getSettings,
    getExpiry: questionSources.getExpiry,
    limits: config,
    now: options.now,
    load: options.load,
    reviewMs: options.reviewMs,
  })
  const catalog = new Catalog({ shards, barrier, questions: questionRunner, log })
  const reads = new EventReads(shards, barrier, options.searchLimits)
  // Expired sessions are erased, too.
  const erased = { shards, barrier, aliases, profiles, sessions: lanes.sessions, noteDeletion }
  const erasure = new Erasure(erased)
  const projectErasure = new ProjectErasure({ ...erased, ids })
  const nameVisitor: NameVisitor = (visit) => visitors.name(visit)
  return { keptSince, barrier, sessions, questionRunner, catalog, reads, erasure, projectErasure, nameVisitor }
}

/** What the routes of the API use. */
interface ApiParts {
  config: Config
  http: OpenServer
  parts: Parts
  contexts: Contexts
  api: ReturnType<typeof openApi>
  now: AppOptions['now'] | undefined
}

function registerApi(server: App, all: ApiParts): void {
  const { config, parts, contexts, api } = all
  const { admission } = parts
  const { profiles, aliases } = parts.lanes
  const { questionRunner, catalog, reads, sessions, nameVisitor } = api
  const origins = splitList(config.CORS_ORIGIN)
  server.addHook('onListen', () => {
    catalog.prepare(all.http.closing)
  })
  server.register(docs)
  server.register(packages)
  server.register(script, { path: config.SCRIPT_PATH })
  server.register(signIn, { admission, projects: parts.projects.projects })
  registerVendors(server, all)
  server.register(async (scope) => {
    admission.guard(scope, ['application/json'])
    scope.register(mcp, { questions: questionRunner, catalog, reads, profiles, aliases })
  })
  server.register(
    async (scope) => {
      allowOrigins(scope, origins)
      admission.guard(scope, ['application/json'])
      acceptDailyVisitors(scope, nameVisitor)
      countNewVisitors(scope)
      auditCalls(scope, (entry) => addAuditEntries(parts.store.shards, [entry]))
      registerCalls(scope, all)
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

/** Registers the paths of other vendors' SDKs. */
function registerVendors(server: App, { config, parts, contexts, api }: ApiParts): void {
  const { keptSince, barrier } = api
  const { buffers, profiles, aliases, links, ids } = parts.lanes
  const options: VendorOptions = {
    admission: parts.admission,
    contexts,
    buffers,
    commits: parts.projects.limited,
    ids,
    profiles,
    aliases,
    links,
    barrier,
    keptSince,
    bodyLimit: config.BATCH_BODY_LIMIT,
    maxDepth: config.MAX_PROPERTY_DEPTH,
    scriptsIn: config.VENDOR_SCRIPTS ?? process.cwd(),
  }
  for (const routes of [segment, jitsu, posthog, mixpanel, amplitude, openpanel]) server.register(routes, options)
}

/** Registers the calls below `/public`. */
function registerCalls(scope: App, { config, http, parts, contexts, api, now }: ApiParts): void {
  const { admission, journals, purge } = parts
  const { shards } = parts.store
  const { buffers, profiles, aliases, links, entries, ids: laneIds, noteDeletion } = parts.lanes
  const { projects, usage, quotas, expiry, limited: commits } = parts.projects
  const { keptSince, barrier, sessions, questionRunner, catalog, reads, erasure, projectErasure } = api
  const { BATCH_BODY_LIMIT: bodyLimit, MAX_PROPERTY_DEPTH: maxDepth } = config
  scope.register(track, {
    admission,
    contexts,
    buffers,
    commits,
    ids: laneIds,
    journals,
    shards,
    barrier,
    keptSince,
    ignored: http.ignored,
    bodyLimit,
    maxDepth,
  })
  scope.register(exports, { shards, barrier })
  const keptForChanges = (projectId: string) => {
    projects.requireKnown()
    return keptSince(projectId)
  }
  scope.register(events, { shards, reads, entries, noteDeletion, maxDepth, keptSince: keptForChanges })
  scope.register(questions, { questions: questionRunner, catalog })
  scope.register(schema, { catalog })
  scope.register(saved, { shards, questions: questionRunner, catalog, now })
  scope.register(live, { live: parts.live, admission })
  const deletesEvents = config.DELETE_USER_EVENTS
  scope.register(userChanges, { profiles, aliases, links, barrier, erasure, purge, deletesEvents })
  scope.register(userReads, { profiles, aliases, shards, barrier, questions: questionRunner, catalog })
  scope.register(usersBatch, { profiles, aliases, links, barrier, admission, bodyLimit, maxDepth })
  scope.register(sessionReads, { sessions, shards, barrier })
  scope.register(deadLetters, { shards, barrier, noteDeletion, expiry })
  scope.register(key)
  scope.register(keys, { shards, fixed: parts.keys.fixed, refresh: parts.keys.refresh })
  scope.register(project, { projects, expiry, usage, quotas, shards, projectErasure, purge })
  scope.register(ids, { ids: laneIds })
}
