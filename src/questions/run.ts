import {
  isServerOutOfMemory,
  isStoreError,
  isTimeout,
  isTooLarge,
  NoSlotError,
  ShardUnreachableError,
  StatementTooLargeError,
  StoreTimeoutError,
  StoreUnreachableError,
} from '../clickhouse/errors.js'
import type { ClickHouseSettings } from '../clickhouse/parameters.js'
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
import type { Barrier, ReadPoint } from '../reads/read-barrier.js'
import type { Aliases } from '../users/aliases/aliases.js'
import { FactsReads, type FactsReadsOptions } from './facts-reads.js'
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
import { ServerSettings } from './server-settings.js'
import type { Query, QueryContext } from './statement.js'
import { warnOfUnsetBreakdowns } from './unset-breakdown.js'
import { UnusualProjects } from './unusual-projects.js'

interface QuestionLimits {
  /** time limit of a question in ClickHouse, seconds */
  QUERY_TIMEOUT: number
  /** memory limit of a question, bytes; half of the server's memory if that is less */
  QUERY_MEMORY: number
}

export interface QuestionsOptions extends FactsReadsOptions {
  shards: Shards
  barrier: Pick<Barrier, 'waitForProject'>
  aliases: Pick<Aliases, 'hasAny'>
  limits: QuestionLimits
  /** the settings of a project; default: none */
  getSettings?: ((projectId: string) => QuestionDefaults & PageSettings) | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
  /** how long an answer waits for its warnings, ms; default: a second */
  reviewMs?: number | undefined
  /** how long the settings for the server are remembered, ms; default: a minute */
  settingsMs?: number | undefined
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
/** How long a project is assumed to have chains of aliases, ms. They are resolved within seconds. */
export const CHAINED_MS = 60_000
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

/** Looks for mistakes in a question. @param asked `body` is the question as sent, `point` the point of its answer */
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
  readonly #facts: FactsReads
  readonly #settings: ServerSettings

  constructor(options: QuestionsOptions) {
    this.#options = options
    const { shards, limits, settingsMs } = options
    this.#settings = new ServerSettings({ shards, memory: limits.QUERY_MEMORY, rememberedMs: settingsMs })
    this.#facts = new FactsReads(options, () => this.#checkStore())
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
      // If events are not stored yet, they may have the unknown names.
      const asked = point.pending === 0 ? review?.(projectId, { question, body, point }) : undefined
      // Warnings are optional: a failed review, for example because of too many questions, does not fail the answer.
      const reviewed = Promise.resolve(asked ?? []).catch(() => [])
      const asking = { projectId, now, patterns, settings, slot, appended: point.appended }
      return { ...point, reviewed, answer: await this.#answer(question, asking, signal) }
    })
    const { results, ...extra } = answer
    const ofNames = await withTimeout(reviewed, this.#options.reviewMs ?? GRACE_FOR_REVIEW_MS).catch(() => [])
    const unset = warnOfUnsetBreakdowns(question, results).filter(({ path }) =>
      ofNames.every((one) => one.path !== path),
    )
    const warnings = [...ofFields, ...ofNames, ...unset]
    const elapsed_ms = Math.round(performance.now() - began)
    const warned = warnings.length > 0 && { warnings: warnings.slice(0, MAX_WARNINGS) }
    return { kind: question.kind, results, ...extra, query: question, pending, elapsed_ms, ...warned }
  }

  /**
   * Looks for the mistakes in valid questions that `ask` would warn about, without answering them. If that takes too
   * long or fails, it returns those found so far.
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
    let isLate = false
    const reviewNames = async () => {
      const point = await this.#options.barrier.waitForProject(projectId)
      if (point.pending > 0) return
      for (const { path, question, body } of read) {
        // The look-ups of a whole board would keep the project's slots from its questions.
        if (isLate) return
        note(path, await review(projectId, { question, body, point }))
      }
    }
    await withTimeout(reviewNames(), this.#options.reviewMs ?? GRACE_FOR_REVIEW_MS).catch(() => undefined)
    isLate = true
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
    build: (context: QueryContext) => Query | Promise<Query>,
    { advice = 'Ask about one event, or try again later.', signal, patterns = [] }: ReadOptions = {},
  ): Promise<unknown[]> {
    const now = this.#options.now?.() ?? Date.now()
    const settings = choosePatternSettings(patterns)
    return await this.#inSlot(projectId, signal, (slot) => {
      return this.#readOrExplain({ projectId, now, slot, patterns, settings }, build, { advice, signal })
    })
  }

  /** The project's settings for questions. */
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
    const build = (context: QueryContext) => kind.query(question, context)
    const rows = await this.#readOrExplain(asking, build, { advice: NARROWER, signal })
    return kind.answer(question, rows, asking)
  }

  /** @throws ApiError that says what the client can change */
  async #readOrExplain(
    asking: QuestionRun & PatternSettings,
    build: (context: QueryContext) => Query | Promise<Query>,
    { advice, signal }: { advice: string; signal: AbortSignal | undefined },
  ): Promise<unknown[]> {
    const { patterns, settings, slot } = asking
    const buildWithSettings = async (context: QueryContext) => {
      const query = await build(context)
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
        // ClickHouse does not say whether this question or other queries used the memory.
        const message = `ClickHouse has no memory left for the question. Try again in a moment, or narrow it. ${advice}`
        throw new ApiError('overloaded', message, { cause: error, limit: 'reads' })
      }
      throw isTooLarge(error) || isLarge(error) ? this.#tooLarge(error, advice) : error
    }
  }

  /**
   * Runs a query as if the project's data were ordinary, unless it is known not to be. If the data turns out to have
   * texts that need repair, simultaneous events of a user, chains of aliases, or more values than fit in memory, the
   * query is repeated for such data. Too many values are not remembered, because noticing them takes at most a fifth of
   * the question's time. The query is also repeated if other queries had used up the memory.
   */
  async #read(
    { projectId, now, slot, appended }: QuestionRun,
    build: (context: QueryContext) => Query | Promise<Query>,
    signal?: AbortSignal,
  ): Promise<unknown[]> {
    const { shards, aliases, limits } = this.#options
    const hasAliases = await aliases.hasAny(projectId)
    const pages = this.getProject(projectId)
    // All attempts share one limit.
    const deadline = performance.now() + limits.QUERY_TIMEOUT * 1000
    let repairsTexts = this.#repaired.has(projectId, now)
    let hasTies = this.#tied.has(projectId, now)
    // If a query fails on purpose, the other shards would continue it.
    let hasChains = shards.areSeveral || this.#chained.has(projectId, now)
    let hasManyValues = false
    let wasShort = false
    for (;;) {
      const data = { repairsTexts, hasTies, hasChains, hasManyValues }
      let isGreedy = false
      try {
        return await this.#facts.read({ projectId, appended, pages, signal }, async (facts, sessions) => {
          const context = { projectId, now, shards, hasAliases, ...data, pages, facts }
          const rows = (query: Query) => {
            return this.#rows(query, { signal, slot }, (deadline - performance.now()) / 1000)
          }
          let query = await build(context)
          if (await sessions?.lookUp(rows)) query = await build(context)
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
          // By now, ClickHouse has freed memory by ending the largest query.
          wasShort = true
        } else {
          throw error
        }
      }
    }
  }

  /** @param seconds time limit */
  async #rows(
    { sql, parameters, settings }: Query,
    { signal, slot }: Running,
    seconds = this.#options.limits.QUERY_TIMEOUT,
  ): Promise<unknown[]> {
    const { shards } = this.#options
    // 0 would mean no limit.
    const max_execution_time = Math.max(1, Math.round(seconds))
    const limitMs = max_execution_time * 1000 + GRACE_MS
    try {
      const threads = this.#load.isShort && { max_threads: 1 }
      const all = { ...(await this.#settings.read()), max_execution_time, ...threads, ...settings }
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
      : `needs more than the ${Math.round(this.#settings.memory / 1024 / 1024)} MiB of memory that it may use`
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
