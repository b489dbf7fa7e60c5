import type { ClickHouseSettings } from '@clickhouse/client'
import {
  findUnreadablePart,
  isServerOutOfMemory,
  isStoreError,
  isTimeout,
  isTooLarge,
  NoSlotError,
  ShardUnreachableError,
  StatementTooLargeError,
  type StoreErrorName,
  StoreTimeoutError,
  StoreUnreachableError,
} from '../clickhouse/errors.js'
import { ReadSlots, type Slot, type SlotLimits } from '../clickhouse/read-slots.js'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import type { PageSettings } from '../contract/page-fields.js'
import { DEFAULT_SETTINGS, type QuestionDefaults } from '../contract/project-settings.js'
import type { Question } from '../contract/questions.js'
import { MAX_WARNINGS, type Warning } from '../contract/warning.js'
import { abortable } from '../lib/abortable.js'
import { ThreadLoad } from '../lib/thread-load.js'
import { withTimeout } from '../lib/with-timeout.js'
import type { Position } from '../model/position.js'
import type { FactsPoint, FactsReader } from '../reads/facts-reader.js'
import type { Barrier, ReadPoint } from '../reads/read-barrier.js'
import type { Aliases } from '../users/aliases/aliases.js'
import type { Answer } from './kind.js'
import { getKind } from './kinds.js'
import { readQuestion } from './parse.js'
import {
  checkPatterns,
  choosePatternSettings,
  findPatterns,
  type Pattern,
  toPatternsTooLargeError,
} from './patterns.js'
import { identifySessions } from './session-facts-source.js'
import type { FactsBounds, Query, QueryContext } from './statement.js'
import { warnOfUnsetBreakdowns } from './unset-breakdown.js'
import { UnusualProjects } from './unusual-projects.js'
import { type FoundSessions, UsableDays } from './usable-days.js'
import { ValueColumns } from './value-columns.js'

interface QuestionLimits {
  /** time limit of a question in ClickHouse, seconds */
  QUERY_TIMEOUT: number
  /** memory limit of a question, bytes; it is lower if that is more than MEMORY_SHARE of the server's memory */
  QUERY_MEMORY: number
}

export interface QuestionsOptions {
  shards: Shards
  barrier: Pick<Barrier, 'waitForProject'>
  aliases: Pick<Aliases, 'hasAny'>
  /** default: questions read `events` only */
  facts?:
    | Pick<
        FactsReader,
        | 'point'
        | 'stillHolds'
        | 'readColumns'
        | 'forgetColumns'
        | 'noteSlow'
        | 'noteUsed'
        | 'noteSessions'
        | 'noteDamage'
        | 'noteDamagedSessions'
      >
    | undefined
  limits: QuestionLimits
  /** what a project has set; default: nothing */
  getSettings?: ((projectId: string) => QuestionDefaults & PageSettings) | undefined
  /** epoch ms before which events or sessions of a project may have expired; null or default: none have */
  getExpiry?: ((projectId: string) => number | null) | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
  /** how long an answer waits for its warnings, ms; default: a second */
  reviewMs?: number | undefined
  /** maximum number of changed sessions that a statement lists; default: 2000 */
  maxChanged?: number | undefined
  /** default: the load of this thread */
  load?: Pick<ThreadLoad, 'isShort'> | undefined
}

/** Maximum number of concurrent questions; fewer, with one thread each, while this thread is busy. */
const AT_ONCE = { slots: 8, perProject: 2 }
const AT_ONCE_WHILE_BUSY = { slots: 2, perProject: 1 }
/** How long further questions wait for a slot, ms. */
const WAIT_MS = 20_000
const RETRY_SECONDS = 5
/** ClickHouse may be late to end a query that takes too long; the client gives up this much later, ms. */
const GRACE_MS = 5_000
/** How long an answer waits for an unfinished review, ms. Known names need no wait. */
const GRACE_FOR_REVIEW_MS = 1_000
/**
 * Maximum bytes of a result, which this process holds in memory. A breakdown repeats its values in every bucket: 60
 * values of 200 KB over 30 days take 370 MB. Half a million points with names of 100 characters take half of this.
 */
const MAX_RESULT_BYTES = 128 * 1024 * 1024
/**
 * Rewrites of comparisons, GROUP BY, ORDER BY and LIMIT BY that our statements do not need. Trying them compares whole
 * expression trees, which takes a third of the time to plan paths or a breakdown by channel, and a quarter for funnels.
 * Expressions that were merged across subqueries also compute in one step what builds upon each other in several: a
 * breakdown by source or channel takes a quarter longer. ClickHouse reorders joins once it knows their sizes from an
 * earlier run. For sessions by `page.channel` in a project with chains of aliases, planning then took minutes and several
 * GB, and no limit applied (26.7).
 */
export const NEEDLESS_REWRITES = [
  'optimize_and_compare_chain',
  'optimize_aggregators_of_group_by_keys',
  'optimize_group_by_function_keys',
  'optimize_injective_functions_in_group_by',
  'optimize_injective_functions_in_limit_by',
  'optimize_limit_by_function_keys',
  'optimize_redundant_functions_in_order_by',
  'optimize_truncate_order_by_after_group_by_keys',
  'query_plan_merge_expressions',
  'query_plan_optimize_join_order_limit',
]

/**
 * When ClickHouse pushes a filter down to the shards, it omits conditions with a lambda, even below NOT, so that the
 * remaining filter drops matching rows (25.1 up to 26.8; ClickHouse issue 113445). So filters of properties run on the
 * shard that merges the results.
 */
const OVER_SHARDS: ClickHouseSettings = { allow_push_predicate_ast_for_distributed_subqueries: 0 }

/** Errors of a query that depend on the events that it has read. */
const OF_EVENTS: StoreErrorName[] = ['FUNCTION_THROW_IF_VALUE_IS_NON_ZERO', 'AMBIGUOUS_IDENTIFIER', 'TOO_MANY_ROWS']

/** How often a question reads facts that change in the meantime before it reads `events` instead. */
const MAX_FACTS_READS = 2
/** How long a project is assumed to have chains of aliases, ms. They are settled within seconds. */
export const CHAINED_MS = 60_000
/**
 * How much of ClickHouse's memory one question may use at most. With more, it could hit the limit of the whole server,
 * and would look as if other queries had used up the memory.
 */
const MEMORY_SHARE = 0.5
/** A question that takes longer would benefit from columns for its properties. */
const SLOW_MS = 200

const NARROWER = 'Ask about a shorter time (from, to), fewer events or fewer breakdowns.'

/** A caller whose slot stays in use until ClickHouse has ended its queries. */
interface Running {
  signal: AbortSignal | undefined
  slot: Slot
}

interface PatternSettings {
  patterns: readonly Pattern[]
  settings: ClickHouseSettings
}

interface ReadOptions {
  advice?: string
  signal?: AbortSignal
  patterns?: readonly Pattern[]
}

type QuestionRun = Pick<QueryContext, 'projectId' | 'now'> & Pick<Running, 'slot'> & Pick<ReadPoint, 'appended'>

/** The answer to a question, in the order of its fields. */
export interface AnsweredQuestion extends Answer {
  kind: Question['kind']
  query: Question
  pending: number
  elapsed_ms: number
  /** absent if there are no warnings */
  warnings?: Warning[]
}

/** Looks for mistakes in a question. @param asked `body` is the question as sent, `point` that of its answer */
export type Review = (
  projectId: string,
  asked: { question: Question; body: unknown; point: ReadPoint },
) => Promise<Warning[]>

/** Runs questions in ClickHouse, a few per project at a time. All I/O of questions is here. */
export class Questions {
  readonly #options: QuestionsOptions
  readonly #load: Pick<ThreadLoad, 'isShort'>
  readonly #slots: ReadSlots
  readonly #repaired = new UnusualProjects()
  readonly #tied = new UnusualProjects()
  readonly #chained = new UnusualProjects(CHAINED_MS)
  /** by the `shards` of a point, which stay the same object while the point is used */
  readonly #changed = new WeakMap<object, { appended: Position; found: FoundSessions }>()
  #settings: Promise<ClickHouseSettings> | undefined
  /** of a question, bytes */
  #memory: number

  constructor(options: QuestionsOptions) {
    this.#options = options
    this.#memory = options.limits.QUERY_MEMORY
    this.#load = options.load ?? new ThreadLoad()
    this.#slots = new ReadSlots(createSlotLimits(this.#load))
  }

  /**
   * Answers a question once everything that was accepted before it is stored.
   * @param body of the request, as JSON
   * @param signal aborted when the client disconnects, which ends the query
   * @param review looks for mistakes while the question runs; its result is dropped if it comes too late
   * @throws ApiError `invalid_request`, `query_too_large`, `overloaded`
   */
  async ask(projectId: string, body: unknown, signal: AbortSignal, review?: Review): Promise<AnsweredQuestion> {
    const began = performance.now()
    const now = this.#options.now?.() ?? Date.now()
    const { question, warnings: ofFields } = readQuestion(body, now, this.getProject(projectId))
    const patterns = findPatterns(question)
    const settings = choosePatternSettings(patterns)
    const { answer, pending, reviewed } = await this.#inSlot(projectId, signal, async (slot) => {
      const point = await this.#wait(projectId, signal)
      // Events that are not stored yet may have the names.
      const asked = point.pending === 0 ? review?.(projectId, { question, body, point }) : undefined
      // Warnings are optional: a failed review, for example because of too many questions, does not fail the answer.
      const reviewed = Promise.resolve(asked ?? []).catch(() => [])
      const asking = { projectId, now, patterns, settings, slot, appended: point.appended }
      return { ...point, reviewed, answer: await this.#answer(question, asking, signal) }
    })
    const { results, ...beside } = answer
    const ofNames = await withTimeout(reviewed, this.#options.reviewMs ?? GRACE_FOR_REVIEW_MS).catch(() => [])
    const unset = warnOfUnsetBreakdowns(question, results).filter(({ path }) =>
      ofNames.every((one) => one.path !== path),
    )
    const warnings = [...ofFields, ...ofNames, ...unset]
    const elapsed_ms = Math.round(performance.now() - began)
    const warned = warnings.length > 0 && { warnings: warnings.slice(0, MAX_WARNINGS) }
    return { kind: question.kind, results, ...beside, query: question, pending, elapsed_ms, ...warned }
  }

  /**
   * Looks for the mistakes in valid questions that `ask` would warn about, without answering them. It finds fewer if
   * that takes too long or fails.
   * @param bodies by the JSON pointer to each in the request
   */
  async review(projectId: string, bodies: ReadonlyMap<string, unknown>, review: Review): Promise<Warning[]> {
    const now = this.#options.now?.() ?? Date.now()
    const read = [...bodies].map(([path, body]) => {
      return { path, body, ...readQuestion(body, now, this.getProject(projectId)) }
    })
    const found: Warning[] = []
    const note = (path: string, warnings: Warning[]) => {
      found.push(...warnings.map((warning) => ({ ...warning, path: `${path}${warning.path}` })))
    }
    for (const { path, warnings } of read) note(path, warnings)
    const reviewNames = async () => {
      const point = await this.#options.barrier.waitForProject(projectId)
      if (point.pending > 0) return
      for (const { path, question, body } of read) note(path, await review(projectId, { question, body, point }))
    }
    await withTimeout(reviewNames(), this.#options.reviewMs ?? GRACE_FOR_REVIEW_MS).catch(() => undefined)
    return found.slice(0, MAX_WARNINGS)
  }

  /**
   * Reads rows about a project within the limits of questions. The caller has waited at the read barrier.
   * @param advice a sentence for `query_too_large` that says what to request instead
   * @param signal aborted when the client disconnects, which ends the query
   * @param patterns the regular expressions in the query
   * @throws ApiError `query_too_large`, `overloaded`, and `invalid_request` if a pattern is invalid
   */
  async read(
    projectId: string,
    build: (asked: QueryContext) => Query | Promise<Query>,
    { advice = 'Ask about one event, or try again later.', signal, patterns = [] }: ReadOptions = {},
  ): Promise<unknown[]> {
    const now = this.#options.now?.() ?? Date.now()
    const settings = choosePatternSettings(patterns)
    return await this.#inSlot(projectId, signal, (slot) => {
      return this.#readOrExplain({ projectId, now, slot, patterns, settings }, build, { advice, signal })
    })
  }

  /** What the project has set for its questions. */
  getProject(projectId: string): QuestionDefaults & PageSettings {
    return this.#options.getSettings?.(projectId) ?? DEFAULT_SETTINGS
  }

  async #inSlot<T>(projectId: string, signal: AbortSignal | undefined, run: (slot: Slot) => Promise<T>): Promise<T> {
    const slot = await this.#slots.take(projectId, signal).catch(refuse)
    try {
      return await run(slot)
    } finally {
      slot.release()
    }
  }

  /**
   * Waits at the read barrier. While a shard is down, that may take long, so a client that disconnects gives up its
   * slot immediately.
   */
  async #wait(projectId: string, signal: AbortSignal): Promise<ReadPoint> {
    try {
      return await abortable(this.#options.barrier.waitForProject(projectId), signal)
    } catch (error) {
      throw signal.aborted ? new StoreUnreachableError('The client disconnected.', { cause: error }) : error
    }
  }

  async #answer(question: Question, asking: QuestionRun & PatternSettings, signal: AbortSignal): Promise<Answer> {
    const kind = getKind(question)
    const build = (asked: QueryContext) => kind.query(question, asked)
    const rows = await this.#readOrExplain(asking, build, { advice: NARROWER, signal })
    return kind.answer(question, rows, asking)
  }

  /** @throws ApiError that says what the client can change */
  async #readOrExplain(
    asking: QuestionRun & PatternSettings,
    build: (asked: QueryContext) => Query | Promise<Query>,
    { advice, signal }: { advice: string; signal: AbortSignal | undefined },
  ): Promise<unknown[]> {
    const { patterns, settings, slot } = asking
    const buildWithSettings = async (asked: QueryContext) => {
      const query = await build(asked)
      return { ...query, settings: { ...query.settings, ...settings } }
    }
    try {
      return await this.#read(asking, buildWithSettings, signal)
    } catch (error) {
      if (isStoreError(error, 'CANNOT_COMPILE_REGEXP', 'BAD_ARGUMENTS')) {
        await checkPatterns(patterns, (query) => this.#rows(query, { signal, slot }))
        if (isStoreError(error, 'CANNOT_COMPILE_REGEXP')) throw toPatternsTooLargeError(error)
      }
      if (isServerOutOfMemory(error)) {
        // ClickHouse does not say whether others or this question took it.
        const message = `ClickHouse has no memory left for the question. Try again in a moment, or narrow it. ${advice}`
        throw new ApiError('overloaded', message, { cause: error, limit: 'reads' })
      }
      throw isTooLarge(error) || isLarge(error) ? this.#tooLarge(error, advice) : error
    }
  }

  /**
   * Runs a query as if the project's data were ordinary, unless it is known not to be. If it turns out to have texts
   * that need repair, simultaneous events of a user, chains of aliases, or more values than fit in memory, the query is
   * repeated for that. The last is not remembered, because finding out takes a fifth of the question's time at most. It
   * is also repeated if other queries left it no memory.
   */
  async #read(
    { projectId, now, slot, appended }: QuestionRun,
    build: (asked: QueryContext) => Query | Promise<Query>,
    signal?: AbortSignal,
  ): Promise<unknown[]> {
    const { shards, aliases, limits } = this.#options
    const hasAliases = await aliases.hasAny(projectId)
    const pages = this.getProject(projectId)
    // All attempts share one limit.
    const deadline = performance.now() + limits.QUERY_TIMEOUT * 1000
    let repairsTexts = this.#repaired.has(projectId, now)
    let hasTies = this.#tied.has(projectId, now)
    // A query that fails on purpose would leave the other shards at work.
    let hasChains = shards.areSeveral || this.#chained.has(projectId, now)
    let hasManyValues = false
    let wasShort = false
    for (;;) {
      const data = { repairsTexts, hasTies, hasChains, hasManyValues }
      let isGreedy = false
      try {
        return await this.#readFacts({ projectId, appended, pages, signal }, async (facts, sessions) => {
          const asked = { projectId, now, shards, hasAliases, ...data, pages, facts }
          const rows = (query: Query) => {
            return this.#rows(query, { signal, slot }, (deadline - performance.now()) / 1000)
          }
          let query = await build(asked)
          if (await sessions?.lookUp(rows)) query = await build(asked)
          isGreedy = query.isGreedy ?? false
          return await rows(query)
        })
      } catch (error) {
        if (!repairsTexts && isStoreError(error, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO')) {
          this.#repaired.add(projectId, now)
          repairsTexts = true
        } else if (!hasTies && isStoreError(error, 'AMBIGUOUS_IDENTIFIER')) {
          this.#tied.add(projectId, now)
          hasTies = true
        } else if (!hasChains && isStoreError(error, 'INFINITE_LOOP')) {
          this.#chained.add(projectId, now)
          hasChains = true
        } else if (isGreedy && isStoreError(error, 'TOO_MANY_ROWS', 'MEMORY_LIMIT_EXCEEDED')) {
          hasManyValues = true
        } else if (!wasShort && isServerOutOfMemory(error)) {
          // ClickHouse has made room meanwhile, by ending the query that took the most.
          wasShort = true
        } else {
          throw error
        }
      }
    }
  }

  /**
   * Handles a failure to learn about the facts: the question is answered without them.
   * @throws if ClickHouse does not respond at all
   */
  async #withoutFacts(error: unknown): Promise<null> {
    if (!isTimeout(error)) throw error
    await this.#checkStore()
    return null
  }

  /**
   * Reads facts as they are, which is fastest. If a step has changed them meanwhile, the query is repeated without the
   * rows of later steps, and then without facts.
   */
  async #readFacts<T>(
    {
      projectId,
      appended,
      pages,
      signal,
    }: Pick<QuestionRun, 'projectId' | 'appended'> & Pick<QueryContext, 'pages'> & Pick<Running, 'signal'>,
    read: (facts: FactsBounds | null, sessions: UsableDays | null) => Promise<T>,
  ): Promise<T> {
    const { facts } = this.#options
    for (let failed = 0; facts && failed < MAX_FACTS_READS; failed++) {
      const reached = facts.point(projectId, appended, signal)
      const point = await reached.catch((error: unknown) => this.#withoutFacts(error))
      if (!point) break
      const isBounded = failed > 0 || point.isStepping || point.isMoving
      const stillHolds = async () => {
        return await facts.stillHolds(projectId, point, isBounded).catch((error: unknown) => this.#withoutFacts(error))
      }
      const values = new ValueColumns(await facts.readColumns())
      const sessions = new UsableDays(point.sessionDays, {
        definition: identifySessions(pages),
        expiry: this.#options.getExpiry?.(projectId) ?? null,
        found: this.#recallChanged(point, appended),
        max: this.#options.maxChanged,
      })
      // Losing these notes only costs speed.
      const noteSlow = () => void facts.noteSlow(projectId, values.sources).catch(() => undefined)
      const began = performance.now()
      const bounds: FactsBounds = {
        hi: point.shards.map((shard) => shard?.hi ?? 0n),
        hasLater: point.hasLater,
        step: isBounded ? point.shards.map((shard) => shard?.step ?? 0) : null,
        findColumn: (source) => values.find(source),
        findSessions: () => sessions.find(),
        findChanged: (query) => sessions.findChanged(query),
      }
      const found = await read(bounds, sessions).catch(async (error: unknown) => {
        const damaged = findUnreadablePart(error)
        // A column was dropped.
        if (isStoreError(error, 'UNKNOWN_IDENTIFIER')) facts.forgetColumns()
        else if (damaged?.table === 'event_facts') void facts.noteDamage().catch(() => undefined)
        else if (damaged?.table === 'session_facts') void facts.noteDamagedSessions(projectId).catch(() => undefined)
        // The damaged table is unknown, so it may be the facts; `events` has the same data.
        else if (!damaged || damaged.table !== null) {
          if (isTooLarge(error)) noteSlow()
          if (!isStoreError(error, ...OF_EVENTS) || (await stillHolds())) throw error
        }
        return null
      })
      if (found === null) continue
      const tookMs = performance.now() - began
      if (!(await stillHolds())) continue
      void facts.noteUsed(values.used).catch(() => undefined)
      const isSlow = tookMs > SLOW_MS
      if (isSlow) noteSlow()
      if (sessions.areAsked) {
        void facts.noteSessions(projectId, { isSlow, isUsed: sessions.areUsed }).catch(() => undefined)
      }
      return found
    }
    return await read(null, null)
  }

  /** The changed sessions that questions at a point have found. @param appended as for `FactsReader.point` */
  #recallChanged({ shards }: Pick<FactsPoint, 'shards'>, appended: Position | undefined): FoundSessions {
    const known = this.#changed.get(shards)
    // Data accepted later may have changed more sessions.
    if (known && appended !== undefined && known.appended === appended) return known.found
    const found: FoundSessions = new Map()
    if (appended !== undefined) this.#changed.set(shards, { appended, found })
    return found
  }

  /** @param seconds time limit */
  async #rows(
    { sql, parameters, settings }: Query,
    { signal, slot }: Running,
    seconds = this.#options.limits.QUERY_TIMEOUT,
  ): Promise<unknown[]> {
    const { shards } = this.#options
    this.#settings ??= this.#findSettings().catch((error: unknown) => {
      this.#settings = undefined
      throw error
    })
    // 0 would mean no limit.
    const max_execution_time = Math.max(1, Math.round(seconds))
    const limitMs = max_execution_time * 1000 + GRACE_MS
    try {
      const threads = this.#load.isShort && { max_threads: 1 }
      const all = { ...(await this.#settings), max_execution_time, ...threads, ...settings }
      return await shards.rows(sql, parameters, all, { project: slot.project, slot, signal, limitMs })
    } catch (error) {
      if (error instanceof StoreTimeoutError) await this.#checkStore()
      throw error
    }
  }

  /**
   * After a timeout: the query was too large only if ClickHouse responds at all.
   * @throws StoreUnreachableError if it does not
   */
  async #checkStore(): Promise<void> {
    try {
      await this.#options.shards.each(({ clickhouse }) => clickhouse.ping())
    } catch (error) {
      throw error instanceof ShardUnreachableError
        ? error
        : new StoreUnreachableError('ClickHouse is silent', { cause: error })
    }
  }

  /** Omits settings that the server does not know. */
  async #findSettings(): Promise<ClickHouseSettings> {
    const { shards } = this.#options
    this.#memory = await this.#findMemory()
    const found = await shards.each(({ clickhouse }) =>
      clickhouse.rows<{ name: string }>('SELECT name FROM system.settings WHERE name IN {names:Array(String)}', {
        names: NEEDLESS_REWRITES,
      }),
    )
    const known = found.map((rows) => new Set(rows.map(({ name }) => name)))
    const taken = NEEDLESS_REWRITES.filter((name) => known.every((names) => names.has(name)))
    return {
      max_memory_usage: String(this.#memory),
      max_result_bytes: String(MAX_RESULT_BYTES),
      result_overflow_mode: 'throw',
      output_format_json_escape_forward_slashes: 0,
      ...(shards.areSeveral && OVER_SHARDS),
      ...Object.fromEntries(taken.map((name) => [name, 0])),
    }
  }

  /** The memory limit of a question, bytes. */
  async #findMemory(): Promise<number> {
    const { shards, limits } = this.#options
    const found = await shards.each(({ clickhouse }) =>
      clickhouse
        .rows<{ bytes: string }>(
          "SELECT value AS bytes FROM system.server_settings WHERE name = 'max_server_memory_usage'",
        )
        .catch((error: unknown) => {
          if (isStoreError(error, 'ACCESS_DENIED')) return []
          throw error
        }),
    )
    const memory = found.flat().map(({ bytes }) => Math.floor(Number(bytes) * MEMORY_SHARE))
    return Math.min(limits.QUERY_MEMORY, ...memory.filter((bytes) => bytes > 0))
  }

  #tooLarge(error: unknown, advice: string): ApiError {
    const { QUERY_TIMEOUT } = this.#options.limits
    if (isLarge(error)) {
      const message = 'The question has too many properties, filters and values. Split it into several.'
      return new ApiError('query_too_large', message, { cause: error })
    }
    if (isStoreError(error, 'TOO_MANY_ROWS_OR_BYTES')) {
      return new ApiError('query_too_large', `The answer to the question is too large. ${advice}`, { cause: error })
    }
    const over = isTimeout(error)
      ? `takes more than ${QUERY_TIMEOUT} s`
      : `needs more than the ${Math.round(this.#memory / 1024 / 1024)} MiB of memory that it may use`
    return new ApiError('query_too_large', `The question ${over}. ${advice}`, { cause: error })
  }
}

function createSlotLimits(load: Pick<ThreadLoad, 'isShort'>): SlotLimits {
  const atOnce = () => (load.isShort ? AT_ONCE_WHILE_BUSY : AT_ONCE)
  return {
    get slots() {
      return atOnce().slots
    },
    get perProject() {
      return atOnce().perProject
    },
    waitMs: WAIT_MS,
    stalledMs: Number.POSITIVE_INFINITY,
  }
}

/** Whether the statement itself was too large. */
function isLarge(error: unknown): boolean {
  return (
    error instanceof StatementTooLargeError || isStoreError(error, 'TOO_DEEP_AST', 'TOO_BIG_AST', 'TOO_DEEP_RECURSION')
  )
}

function refuse(error: unknown): never {
  if (!(error instanceof NoSlotError)) throw error
  throw new ApiError('overloaded', 'Other questions are still running. Try again in a moment.', {
    cause: error,
    retryAfter: RETRY_SECONDS,
    limit: 'questions',
  })
}
