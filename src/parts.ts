import type { FastifyBaseLogger } from 'fastify'
import type { ClickHouse } from './clickhouse/client.js'
import { warnOfMissingRights } from './clickhouse/missing-rights.js'
import { openOwnStore } from './clickhouse/own-store.js'
import { BACKGROUND, type SlotLimits } from './clickhouse/read-slots.js'
import type { Shards } from './clickhouse/shards.js'
import { whenAvailable } from './clickhouse/when-available.js'
import { type Config, usesDataDir } from './config.js'
import { HOUR_MS } from './contract/durations.js'
import { LedgerWatch } from './damage/ledger-watch.js'
import { PartsWatch } from './damage/parts-watch.js'
import { FactCopier, type FactCopierOptions } from './facts/fact-copier.js'
import type { SessionsPace } from './facts/session-filler.js'
import { openAdmission } from './http/admission/admission.js'
import type { OpenServer } from './http/server.js'
import { CLIENT_LIMITS, type ClientLimits } from './http/socket/connection-limits.js'
import { KeyRefresh, type KeysFound } from './keys/key-refresh.js'
import { KeyRing } from './keys/key-ring.js'
import { KeyUsage } from './keys/key-usage.js'
import { DEFAULT_PROJECT, environmentKeys } from './keys/keys.js'
import type { Lane } from './lanes/lane.js'
import { type Lanes, openLanes, startLanes } from './lanes/lanes.js'
import { checkLayout, findLayout } from './lanes/layout.js'
import { readGuard } from './lanes/open-journal.js'
import { redisForLane } from './lanes/redis-urls.js'
import type { CloseStack } from './lib/close-stack.js'
import { RecentOwners } from './lib/recent-owners.js'
import { LIVE_LIMITS, LiveHub, type LiveLimits } from './live/hub.js'
import type { Metric } from './metrics/metric.js'
import { Metrics, type MetricsSources } from './metrics/registry.js'
import { readStorage } from './metrics/storage.js'
import type { Layout } from './model/layout.js'
import { openProjects } from './projects/open.js'
import type { Projects } from './projects/projects.js'
import { SessionFactsSource, type SessionFactsSourceOptions } from './questions/session-facts-source.js'
import { FactsReader } from './reads/facts-reader.js'
import { openKeyTable } from './store/api-keys.js'
import { MIN_EVENTS } from './store/fact-backlog.js'
import { FactRepairs } from './store/fact-repairs.js'
import { openUsageTable } from './store/key-usage.js'
import { prepareAvailable } from './store/prepare-shards.js'
import { Purge, type PurgePace } from './users/erasure/purge.js'

export interface PartsOptions {
  /** called once the keys have been read; if ClickHouse is unavailable, that is after `openParts` has resolved */
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
  /** returns the time, epoch ms, for questions and sign-ins to the page; default: the clock */
  now?: () => number
  /** default: `LIVE_LIMITS` */
  liveLimits?: Partial<LiveLimits>
  /** how reads share the connections to ClickHouse; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
  /** how often a project may have its deleted data purged; default: `PURGE_PACE` */
  purgePace?: PurgePace
  /** how often to look for expired data, ms; default: an hour */
  expiryEveryMs?: number
  /** how often the session facts of a project are checked; default: `SESSIONS_PACE` */
  sessionsPace?: SessionsPace
}

export type Parts = Awaited<ReturnType<typeof openParts>>

/**
 * Opens the parts in the order of their dependencies, and starts them.
 * @param opened gets each part, to close them in reverse order
 * @throws Error if the journal or the embedded engine cannot be opened. A ClickHouse server that is
 *   unavailable is retried in the background.
 */
export async function openParts(
  config: Config,
  options: PartsOptions,
  { http, log, opened }: { http: OpenServer; log: FastifyBaseLogger; opened: CloseStack },
) {
  const { server, closing } = http
  const { onFatal = () => undefined, keysRefreshMs: everyMs, slotLimits, clientLimits = CLIENT_LIMITS, now } = options
  const owners = new RecentOwners()
  const settings = openProjects({ log, closing, everyMs, expiryEveryMs: options.expiryEveryMs, now })
  const { settingsOfReads } = settings
  const store = opened.add(await openOwnStore(config, { log, slotLimits, owners, settingsOfReads }))
  const { clickhouse, shards } = store
  options.onClickHouse?.(config.CLICKHOUSE_URL ?? store.url)
  // Opened before the lanes, so that it closes after them and records what they store last.
  const inBackground = shards.for(BACKGROUND)
  const repairs = new FactRepairs(log)
  const partsWatch = opened.add(new PartsWatch({ shards: inBackground, log, isNoting: config.ROLE !== 'api', repairs }))
  server.addHook('onError', async (_request, _reply, error) => partsWatch.noteError(error))
  server.decorate('damagedPart', () => partsWatch.unreadable)
  const layout = await findLayout(shards, config.LANES, () => readGuard(config, log))
  const lanes = opened.add(await openLanes(config, shards, { layout, log, closing, onFatal }))
  const { barrier, buffers } = lanes
  const journals = lanes.all.map(({ journal }) => journal)
  const ledger = opened.add(new LedgerWatch({ shards: inBackground, journals, layout: layout.version, log }))
  const keys = openKeys(config, { clickhouse, log, closing, everyMs, usageMs: options.keyUsageMs })
  opened.add(keys.usage)
  const intervalMs = HOUR_MS * config.PURGE_INTERVAL
  const purge = opened.add(new Purge({ shards, barrier, log, intervalMs, pace: options.purgePace }))
  const sources = openQuestionSources(config, { shards, journals, repairs, projects: settings.projects })
  const { sessionsPace } = options
  const facts = opened.add(openFacts(config, { inBackground, shards, sources, barrier, journals, log, sessionsPace }))
  const projects = settings.open({
    shards,
    lanes: lanes.all,
    commits: lanes.commits,
    buffers,
    ids: lanes.ids,
    barrier,
    profiles: lanes.profiles,
    sessions: lanes.sessions,
    noteDeletion: lanes.noteDeletion,
    purge,
  })
  opened.add(projects.expiry)
  const started = { shards, layout, lanes, keys, partsWatch, projects, purge, facts, ledger }
  const start = planStart(config, started, { log, onKeys: options.onKeys })
  await whenAvailable(start, { log, signal: closing, onFatal })
  // Requests are counted in one place, no matter which lane they write to.
  const counting = { ...config, REDIS_URL: config.REDIS_URL && (await redisForLane(config, 0)) }
  const { ring, usage } = keys
  const admission = opened.add(
    await openAdmission(server, counting, { keys: ring, usage, buffers, owners, clientLimits, log, now }),
  )
  const live = new LiveHub({ shards, barrier, journals, limits: limitStreams(config, options), log, closing })
  const metered = { admission, live, parts: partsWatch, ledger, quotas: projects.quotas, facts }
  const metrics = opened.add(openMetrics(config, { http, store, lanes, ...metered }))
  const { shareMetrics = (own) => own } = options
  const readMetrics = shareMetrics(() => metrics.read())
  return {
    store,
    partsWatch,
    lanes,
    journals,
    ledger,
    keys,
    purge,
    questionSources: sources,
    projects,
    admission,
    live,
    readMetrics,
  }
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
  return { fixed, ring, refresh, usage }
}

/**
 * Whether questions read facts. Not with replicas: after a switch to another server, a step may still be running on the
 * old one, and its rows would be added to those of the repeated step.
 */
function usesFacts({ FACTS }: Config, shards: Shards): boolean {
  return FACTS !== 'off' && shards.all.every(({ clickhouse }) => !clickhouse.hasReplicas)
}

interface QuestionSourcesOptions {
  shards: Shards
  journals: readonly Lane['journal'][]
  repairs: FactRepairs
  projects: Projects
}

type QuestionSources = Omit<SessionFactsSourceOptions, 'shards' | 'facts'> & { facts: FactsReader | undefined }

/** Opens the data that questions read in addition to events: facts and project settings. */
function openQuestionSources(
  config: Config,
  { shards, journals, repairs, projects }: QuestionSourcesOptions,
): QuestionSources {
  return {
    facts: usesFacts(config, shards) ? new FactsReader(shards, journals, repairs) : undefined,
    getSettings: (projectId: string) => projects.get(projectId).settings,
    getExpiry: (projectId: string) => {
      const { events, sessions } = projects.kept(projectId)
      const latest = Math.max(events ?? 0, sessions ?? 0)
      return latest > 0 ? latest : null
    },
  }
}

interface FactsOptions extends Pick<FactCopierOptions, 'barrier' | 'journals' | 'log' | 'sessionsPace'> {
  /** the shards, for background work */
  inBackground: Shards
  shards: Shards
  sources: QuestionSources
}

/** Opens the copiers, which copy the events of each shard into facts. */
function openFacts(config: Config, options: FactsOptions) {
  const { inBackground, shards, sources, barrier, journals, log, sessionsPace } = options
  const { facts, getSettings, getExpiry } = sources
  // The events of a session may be on several shards.
  const hasSessions = facts && !shards.areSeveral
  const sessions = hasSessions ? new SessionFactsSource({ shards, facts, getSettings, getExpiry }) : undefined
  const isOn = usesFacts(config, shards)
  const isShared = config.REDIS_URL !== undefined
  const minEvents = config.FACTS === 'all' ? 0 : MIN_EVENTS
  const questionS = config.QUERY_TIMEOUT
  const parts = { barrier, journals, isOn, isShared, log, minEvents, sessions, sessionsPace, questionS }
  const copiers = inBackground.all.map(({ clickhouse }) => new FactCopier({ ...parts, clickhouse }))
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

interface StartedParts {
  shards: Shards
  layout: Layout
  lanes: Lanes
  keys: { refresh: KeyRefresh }
  partsWatch: PartsWatch
  projects: { start(isWriter: boolean): Promise<void> }
  purge: Purge
  facts: { start(): void }
  ledger: LedgerWatch
}

/**
 * @returns what starts the parts; it throws if something that they need is unavailable, and resumes when it is called
 *   again
 */
function planStart(
  { ROLE }: Config,
  { shards, layout, lanes, keys, partsWatch, projects, purge, facts, ledger }: StartedParts,
  { log, onKeys = () => undefined }: { log: FastifyBaseLogger; onKeys: PartsOptions['onKeys'] | undefined },
): () => Promise<void> {
  const isWriter = ROLE !== 'api'
  let prepared: Awaited<ReturnType<typeof prepareAvailable>> | undefined
  let areKeysRead = false
  return async () => {
    if (prepared?.failure !== null) {
      prepared = await prepareAvailable(shards)
      if (!prepared.failure) await warnOfMissingRights(shards, log)
    }
    const { ready, failure } = prepared
    await checkLayout(shards, layout)
    lanes.noteLayout(layout.version === 1)
    await projects.start(isWriter)
    if (!areKeysRead) {
      onKeys(await keys.refresh.start(DEFAULT_PROJECT))
      areKeysRead = true
    }
    await partsWatch.start(() => storedRows(lanes.all))
    const missing = await startLanes(shards, {
      lanes: lanes.all.filter(({ shard }) => ready.includes(shard)),
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
}

interface MeteredParts extends Pick<MetricsSources, 'admission' | 'live' | 'parts' | 'ledger' | 'quotas' | 'facts'> {
  http: OpenServer
  store: Parameters<typeof readStorage>[0]
  lanes: Lanes
}

function openMetrics(config: Config, { http, store, lanes, ...metered }: MeteredParts): Metrics {
  return new Metrics({
    ...metered,
    role: config.ROLE,
    storage: () => readStorage(store, usesDataDir(config) ? config.DATA_DIR : null),
    requests: http.requests,
    limitCounts: http.limitCounts,
    ignored: http.ignored,
    lanes: lanes.all,
    links: lanes.links,
    lateClockReads: lanes.lateClockReads,
  })
}

/** Events and rows that this process has stored. */
function storedRows(lanes: readonly Lane[]): number {
  const counts = lanes.flatMap(({ writer }) => Object.values(writer.metrics.stored))
  return counts.reduce((sum, count) => sum + count, 0)
}

function limitStreams(
  { MAX_LIVE_STREAMS: listeners, MAX_PROJECT_LIVE_STREAMS: perProject }: Config,
  { liveLimits }: PartsOptions,
): LiveLimits {
  return { ...LIVE_LIMITS, listeners, perProject, ...liveLimits }
}
