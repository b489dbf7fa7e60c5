import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type AppOptions, buildApp } from '../../src/app.js'
import { StoreUnreachableError } from '../../src/clickhouse/errors.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { formatProperties, parseProperties } from '../../src/model/properties.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { dataFolder, PUBLIC_KEY, type Scope, SECRET_KEY, until } from '../helper.js'
import type { Plan } from './generate/data.js'
import { type Context, type StoredEvent, type World, withoutUsers, worldOf } from './reference/data.js'
import type { Question } from './reference/question.js'

/** A project with data, and what the tests know about it. */
export interface Project {
  id: string
  key: string
  world: World
}

/** Events that are sent at a time. */
const BATCH = 60

/** The profiles after each user has received the properties of its aliases that it did not have. */
function shared(profiles: Plan['profiles'], aliases: Plan['aliases']): Map<string, string> {
  const of = new Map(profiles)
  const users = new Map<string, string>()
  const userOf = (name: string): string => (users.has(name) ? userOf(users.get(name) ?? '') : name)
  for (const [alias, name] of aliases) {
    const user = userOf(name)
    const own = of.get(alias)
    users.set(alias, user)
    if (own === undefined) continue
    of.set(user, formatProperties(new Map([...parseProperties(own), ...parseProperties(of.get(user) ?? '{}')])))
  }
  return of
}

type Store = Awaited<ReturnType<typeof openStore>>

interface Parts {
  app: FastifyInstance
  clock: AsyncLocalStorage<number>
  keys: string[]
  /** public keys of the same projects, which start sessions */
  starters: string[]
  store: Store
}

/** A service with many projects with different data. Its clock is set for every question. */
export class Projects {
  readonly #app: FastifyInstance
  /** epoch ms, of the running question */
  readonly #clock: AsyncLocalStorage<number>
  /** of projects without data */
  readonly #keys: string[]

  /** awaited before a project is asked about */
  untilReady: (projectId: string) => Promise<unknown> = async () => undefined
  readonly #projectIds: Map<string, string>
  /** by secret key: a public one of the same project */
  readonly #starters: Map<string, string>
  readonly #store: Store

  private constructor({ app, clock, keys, starters, store }: Parts) {
    this.#app = app
    this.#clock = clock
    this.#keys = keys
    this.#starters = new Map(keys.map((key, index) => [key, starters[index] ?? '']))
    this.#store = store
    this.#projectIds = new Map(keys.map((key, index) => [key, `project ${index}`]))
  }

  static async open(
    scope: Scope,
    count: number,
    settings: NodeJS.ProcessEnv = {},
    load?: AppOptions['load'],
  ): Promise<Projects> {
    const clock = new AsyncLocalStorage<number>()
    const keys = Array.from({ length: count }, () => makeKey('secret'))
    const starters = Array.from({ length: count }, () => makeKey('public'))
    const common = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0', FACTS: 'all' }
    const config = loadConfig({ ...common, DATA_DIR: await dataFolder(scope), ...settings })
    const options: AppOptions = {
      now: () => clock.getStore() ?? 0,
      sessionsPace: { everyMs: 100, pauseFactor: 20 },
      ...(load && { load }),
    }
    const app = await buildApp(config, options)
    scope.teardown(() => app.close())
    const store = await openStore(config)
    const stored = keys.flatMap((key, index) => [
      storedKey(key, { projectId: `project ${index}`, kind: 'secret' }),
      storedKey(starters[index] ?? '', { projectId: `project ${index}`, kind: 'public' }),
    ])
    // A statement has at most 1000 parameters.
    for (let at = 0; at < stored.length; at += 200)
      await insertKeys(store.clickhouse, stored.slice(at, at + 200), Date.now())
    scope.teardown(() => store.close())
    // As many slow questions would.
    await store.shards.each(({ clickhouse }) =>
      clickhouse.command(
        `INSERT INTO session_facts_asked (project_id) SELECT concat('project ', toString(number)) FROM numbers(${count})`,
      ),
    )
    const projects = new Projects({ app, clock, keys, starters, store })
    await until('the keys', () => projects.#call(keys[0] ?? '', 'GET', '/public/events').catch(() => undefined))
    return projects
  }

  /** How many more can be loaded. */
  get left(): number {
    return this.#keys.length
  }

  /** Sends data to a new project, edits and deletes some of its events, and erases some of its users. */
  async load({ profiles, aliases, events, sessions, edits, deletes, erased, settings }: Plan): Promise<Project> {
    const key = this.#keys.pop()
    if (key === undefined) throw new Error('no project is left')
    const { page_views, page_fields, sessions: definition } = settings
    const change = { page_views, page_fields, sessions: definition }
    await this.#call(key, 'PATCH', '/public/project', JSON.stringify(change))
    for (const [name, properties] of profiles) {
      await this.#call(key, 'POST', '/public/users/identify', textOf({ distinct_id: name }, properties))
    }
    for (const [alias, of] of aliases) {
      await this.#call(key, 'POST', '/public/users/alias', JSON.stringify({ distinct_id: of, alias }))
    }
    await this.#startSessions(key, sessions)
    const stored = new Map<string, StoredEvent>()
    const ids = await this.#send(key, events)
    for (const [index, event] of events.entries()) {
      const { eventId } = ids[index] as { eventId: string }
      stored.set(eventId, { eventId, ...event })
    }
    const idOf = (place: number) => [...stored.keys()][place % stored.size]
    for (const [place, properties] of edits) {
      const event = stored.get(idOf(place) ?? '')
      if (!event) continue
      await this.#call(key, 'PUT', `/public/events/${event.eventId}`, textOf({}, properties))
      event.properties = properties
    }
    for (const place of deletes) {
      const id = idOf(place)
      if (!id) continue
      await this.#call(key, 'DELETE', `/public/events/${id}`)
      stored.delete(id)
    }
    if (erased.length > 0) {
      await this.#call(key, 'POST', '/public/users/erase', JSON.stringify({ distinct_ids: erased }))
    }
    const data = {
      events: [...stored.values()],
      aliases: new Map(aliases),
      profiles: shared(profiles, aliases),
      sessions,
      settings,
    }
    const id = this.#projectIds.get(key) ?? ''
    await this.untilReady(id)
    return { id, key, world: worldOf(withoutUsers(data, erased)) }
  }

  /**
   * Starts sessions, and then overwrites them with the planned ones, because the calls use the time of the clock.
   * Without the calls, the lanes would not know the sessions, and erasures would leave them.
   */
  async #startSessions(key: string, sessions: Plan['sessions']): Promise<void> {
    const starter = this.#starters.get(key) ?? ''
    const planned = new Map(sessions.map((session) => [session.session_id, session]))
    for (const { session_id, distinct_id } of sessions) {
      await this.#call(starter, 'POST', '/public/sessions/start', JSON.stringify({ session_id, distinct_id }))
    }
    const project_id = this.#projectIds.get(key) ?? ''
    const started = await until('the sessions', async () => {
      const reading = this.#store.shards.each(({ clickhouse }) =>
        clickhouse.rows<{ session_id: string; version: string }>(
          'SELECT session_id, version + 1 AS version FROM sessions FINAL WHERE project_id = {project:String}',
          { project: project_id },
        ),
      )
      const found = await reading.catch(ignoreOutage)
      return found?.flat().length === sessions.length && found
    })
    const replace = () =>
      this.#store.shards.each(async ({ number, clickhouse }) => {
        const rows = (started[number] ?? []).map(({ session_id, version }) => {
          const { context, ...session } = planned.get(session_id) ?? { context: undefined }
          const { bot, ...texts }: Context = context ?? {}
          return JSON.stringify({ ...session, ...texts, bot: Number(bot ?? 0), project_id, version, is_deleted: 0 })
        })
        if (rows.length > 0) await clickhouse.command(`INSERT INTO sessions FORMAT JSONEachRow\n${rows.join('\n')}`)
      })
    await until('the planned sessions', () => replace().catch(ignoreOutage))
  }

  /** Each batch may go to another lane. @returns all events in order, as exported */
  async #send(key: string, events: Plan['events']): Promise<object[]> {
    for (let at = 0; at < events.length; at += BATCH) {
      const bodies = events.slice(at, at + BATCH).map(({ properties, ...rest }) => textOf(rest, properties))
      const headers = { 'idempotency-key': randomUUID() }
      await this.#call(key, 'POST', '/public/track/batch', `{"events":[${bodies.join(',')}]}`, headers)
    }
    return await until('the events', async () => {
      const page = await this.#call(key, 'GET', '/public/events?limit=10000')
      return page.events.length === events.length && page.events
    })
  }

  /** The answer to a question that is asked at a time. */
  async ask({ key }: Project, question: Question, now: number) {
    return await this.#clock.run(now, () => this.#call(key, 'POST', '/public/query', spelled(question)))
  }

  /** ClickHouse, apart from the service. */
  get shards(): Shards {
    return this.#store.shards
  }

  /** Sends anything as a question. @returns the response */
  async send({ key }: Project, body: unknown) {
    const headers = { 'x-api-key': key, 'content-type': 'application/json' }
    return await this.#app.inject({ method: 'POST', url: '/public/query', headers, payload: spelled(body) ?? 'null' })
  }

  async #call(
    key: string,
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    url: string,
    payload?: string,
    more?: object,
  ) {
    const headers = { 'x-api-key': key, ...(payload !== undefined && { 'content-type': 'application/json' }), ...more }
    // A shard may be late on a busy machine.
    const response = await until('the store', async () => {
      const given = await this.#app.inject({ method, url, headers, ...(payload !== undefined && { payload }) })
      return given.statusCode !== 503 && given
    })
    if (response.statusCode !== 200) throw new Error(`${method} ${url}: ${response.statusCode} ${response.body}`)
    return response.json()
  }
}

/** One of several engines aborts now and then, and is soon back. */
function ignoreOutage(error: unknown): undefined {
  if (!(error instanceof StoreUnreachableError)) throw error
}

/** A body with the exact text of properties. */
function textOf(rest: object, properties: string): string {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined)
  const members = given.map(([name, value]) => `"${name}":${JSON.stringify(value)},`)
  return `{${members.join('')}"properties":${properties}}`
}

/** JSON with infinity, which JSON.stringify would write as null. */
function spelled(value: unknown): string | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return value > 0 ? '1e400' : '-1e400'
  if (value instanceof Map) return spelled(Object.fromEntries(value))
  if (Array.isArray(value)) return `[${value.map((one) => spelled(one) ?? 'null').join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${spelled(member)}`).join(',')}}`
}
