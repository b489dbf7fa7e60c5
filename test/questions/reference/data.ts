import { compareTexts, parseJson, type Value } from './json.js'

/** What is in the store, as the API gives it out. */
export interface Data {
  events: StoredEvent[]
  /** what each alias stands for, which may be an alias itself */
  aliases: Map<string, string>
  /** the properties of each profile, as JSON */
  profiles: Map<string, string>
}

export interface StoredEvent {
  eventId: string
  event: string
  distinct_id: string
  timestamp: number
  /** as JSON, to the letter */
  properties: string
}

/** An event with all that a question may ask of it. */
export interface Fact {
  eventId: string
  event: string
  distinctId: string
  /** epoch ms, maybe with a fraction */
  timestamp: number
  /** null for nobody: the events of `$anonymous` are no user's */
  user: string | null
  properties: Value
  /** of the user, as it is now; null if there is none */
  profile: Value
}

/** All events in the order in which a user has done them: by `timestamp`, and at the same time by `eventId`. */
export function factsOf({ events, aliases, profiles }: Data): Fact[] {
  return events
    .map(({ eventId, event, distinct_id, timestamp, properties }) => {
      const user = endOf(aliases, distinct_id)
      return {
        eventId,
        event,
        distinctId: distinct_id,
        timestamp,
        user: user === '$anonymous' ? null : user,
        properties: parseJson(properties),
        profile: parseJson(profiles.get(user) ?? 'null'),
      }
    })
    .sort((a, b) => a.timestamp - b.timestamp || compareTexts(a.eventId, b.eventId))
}

/** The same without some users, whichever of their names they are called by. */
export function withoutUsers({ events, aliases, profiles }: Data, names: string[]): Data {
  const gone = new Set(names.map((name) => endOf(aliases, name)))
  const isLeft = (name: string) => !gone.has(endOf(aliases, name))
  return {
    events: events.filter(({ distinct_id }) => isLeft(distinct_id)),
    aliases: new Map([...aliases].filter(([alias]) => isLeft(alias))),
    profiles: new Map([...profiles].filter(([name]) => isLeft(name))),
  }
}

function endOf(aliases: Map<string, string>, name: string): string {
  const next = aliases.get(name)
  return next === undefined ? name : endOf(aliases, next)
}

/** The events of each user, in their order; nobody's are left out. */
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

/** The users of these events, each once; nobody is none. */
export function usersOf(facts: Iterable<Fact>): Set<string> {
  return new Set([...facts].flatMap(({ user }) => user ?? []))
}
