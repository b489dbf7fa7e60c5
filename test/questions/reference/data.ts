import { DEFAULT_SETTINGS, type ProjectSettings } from '../../../src/contract/project-settings.js'
import { compareTexts, parseJson, type Value } from './json.js'

/** The contents of the store, as the API returns them. */
export interface Data {
  events: StoredEvent[]
  /** the target of each alias, which may itself be an alias */
  aliases: Map<string, string>
  /** the properties of each profile, as JSON */
  profiles: Map<string, string>
  /** the sessions of the calls */
  sessions?: StoredSession[]
  /** the project's settings; absent: none */
  settings?: Settings
}

export type Settings = Pick<ProjectSettings, 'page_views' | 'page_fields' | 'sessions'>

export interface StoredEvent {
  eventId: string
  event: string
  distinct_id: string
  timestamp: number
  /** exact JSON text */
  properties: string
  session_id?: string | undefined
  context?: Context | undefined
}

export type Context = Record<string, string | true>

export interface StoredSession {
  session_id: string
  distinct_id: string
  state: string
  /** as JSON */
  properties: string
  duration: number | null
  started_at: number
  updated_at: number
  ended_at: number | null
  context?: Context | undefined
}

/** Everything that questions are about. */
export interface World {
  facts: Fact[]
  calls: Call[]
  project: Settings
}

/** A session of the calls. */
export interface Call {
  sessionId: string
  user: string | null
  profile: Value
  properties: Value
  state: string
  duration: number
  startedAt: number
  updatedAt: number
  endedAt: number | null
  context: Map<string, Value>
}

/** A session with everything that a question can use. */
export interface Session {
  id: string | null
  start: number
  end: number
  user: string | null
  distinctId: string
  profile: Value
  /** in their order */
  events: Fact[]
  pages: Fact[]
  call: Call | null
}

/** An event with everything that a question can use. */
export interface Fact {
  eventId: string
  event: string
  distinctId: string
  /** epoch ms, maybe with a fraction */
  timestamp: number
  /** null for nobody: the events of `$anonymous` belong to no user */
  user: string | null
  properties: Value
  /** of the user, as it is now; null if there is none */
  profile: Value
  sessionId: string | null
  context: Map<string, Value>
  project: Settings
  /** whether it stands for a session, as the event `$session` */
  isSession: boolean
  /** by the question's definition; null for an event outside of sessions, and before there is a question */
  session: Session | null
}

/** All events in the order in which a user has done them: by `timestamp`, then by `eventId`. */
function factsOf({ events, aliases, profiles, settings: project = DEFAULT_SETTINGS }: Data): Fact[] {
  return events
    .map(({ eventId, event, distinct_id, timestamp, properties, session_id, context }) => {
      const user = endOf(aliases, distinct_id)
      return {
        eventId,
        event,
        distinctId: distinct_id,
        timestamp,
        user: user === '$anonymous' ? null : user,
        properties: parseJson(properties),
        profile: parseJson(profiles.get(user) ?? 'null'),
        sessionId: session_id ?? null,
        context: new Map(Object.entries(context ?? {})),
        project,
        isSession: false,
        session: null,
      }
    })
    .sort((a, b) => a.timestamp - b.timestamp || compareTexts(a.eventId, b.eventId))
}

export function worldOf(data: Data): World {
  const { aliases, profiles, sessions = [] } = data
  const calls = sessions.map((one): Call => {
    const user = endOf(aliases, one.distinct_id)
    return {
      sessionId: one.session_id,
      user: user === '$anonymous' ? null : user,
      profile: parseJson(profiles.get(user) ?? 'null'),
      properties: parseJson(one.properties),
      state: one.state,
      duration: one.duration ?? (one.updated_at - one.started_at) / 1000,
      startedAt: one.started_at,
      updatedAt: one.updated_at,
      endedAt: one.ended_at,
      context: new Map(Object.entries(one.context ?? {})),
    }
  })
  return { facts: factsOf(data), calls, project: data.settings ?? DEFAULT_SETTINGS }
}

/** The same without some users, whichever of their names is given. */
export function withoutUsers(data: Data, names: string[]): Data {
  const { events, aliases, profiles, sessions = [] } = data
  const gone = new Set(names.map((name) => endOf(aliases, name)))
  const isLeft = (name: string) => !gone.has(endOf(aliases, name))
  return {
    ...data,
    events: events.filter(({ distinct_id }) => isLeft(distinct_id)),
    aliases: new Map([...aliases].filter(([alias]) => isLeft(alias))),
    profiles: new Map([...profiles].filter(([name]) => isLeft(name))),
    sessions: sessions.filter(({ distinct_id }) => isLeft(distinct_id)),
  }
}

function endOf(aliases: Map<string, string>, name: string): string {
  const next = aliases.get(name)
  return next === undefined ? name : endOf(aliases, next)
}

/** The events of each user, in order; those of nobody are left out. */
export function byUser(facts: Fact[]): Map<string, Fact[]> {
  const users = new Map<string, Fact[]>()
  for (const fact of facts) {
    if (fact.user === null) continue
    const its = users.get(fact.user) ?? []
    users.set(fact.user, its)
    its.push(fact)
  }
  return users
}

/** The users of these events, each once; nobody is not a user. */
export function usersOf(facts: Iterable<Fact>): Set<string> {
  return new Set([...facts].flatMap(({ user }) => user ?? []))
}
