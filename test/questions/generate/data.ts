import fc from 'fast-check'
import { DEFAULT_SETTINGS } from '../../../src/contract/project-settings.js'
import type { Context, Settings, StoredSession } from '../reference/data.js'
import type { Field } from '../reference/filter.js'
import * as pools from './pools.js'

/** The data of a project, in the order in which it is sent. */
export interface Plan {
  zone: string
  /** the time around which the events are; epoch ms */
  center: number
  /** `[name, properties]`: JSON texts, as all properties here */
  profiles: [name: string, properties: string][]
  aliases: [alias: string, of: string][]
  events: {
    event: string
    distinct_id: string
    timestamp: number
    properties: string
    session_id?: string | undefined
    context?: Context | undefined
  }[]
  /** sessions of the calls */
  sessions: StoredSession[]
  /** new properties for some of the events */
  edits: [index: number, properties: string][]
  deletes: number[]
  /** names by which users are erased, after everything else */
  erased: string[]
  settings: Settings
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** Times in ms from the center: many at the edges of buckets, and few enough for ties. */
const distance = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -6, max: 6 }).map((hours) => hours * HOUR_MS) },
  { weight: 3, arbitrary: fc.integer({ min: -120, max: 120 }).map((minutes) => minutes * MINUTE_MS) },
  { weight: 2, arbitrary: fc.integer({ min: -5, max: 5 }).map((days) => days * DAY_MS) },
  { weight: 2, arbitrary: fc.integer({ min: -20, max: 20 }).map((days) => days * DAY_MS + 3 * HOUR_MS) },
  { weight: 1, arbitrary: fc.integer({ min: -200 * DAY_MS, max: 200 * DAY_MS }) },
)

/** Small deviations from a time. */
export const aside = fc.constantFrom(0, 0, 0, 0, 0, 1, -1, 0.5, -0.25, 250, MINUTE_MS)

const gap = fc.constantFrom('', '', '', ' ', '\n\t')

function once(name: string, values: readonly string[]) {
  return fc.constantFrom(...values.map((value) => [`"${name}": ${value}`]), [])
}

/** A member of an object: absent, once, or twice (the first counts). */
function member(name: string, values: readonly string[], absent = 1) {
  const value = fc.constantFrom(...values)
  const one = fc.tuple(value, gap).map(([text, space]) => [`"${name}"${space}:${space}${text}`])
  const two = fc.tuple(value, value).map((texts) => texts.map((text) => `"${name}":${text}`))
  return fc.oneof(
    { weight: 6, arbitrary: one },
    { weight: absent, arbitrary: fc.constant<string[]>([]) },
    { weight: 1, arbitrary: two },
  )
}

const taken = [...pools.TEXTS, ...pools.NUMBERS, ...pools.ODD_NUMBERS, ...pools.OTHERS]
const refused = [...pools.REFUSED_TEXTS, ...pools.REFUSED_NUMBERS, ...pools.REFUSED_OTHERS]

function object(...members: fc.Arbitrary<string[]>[]): fc.Arbitrary<string> {
  return fc
    .tuple(
      fc.tuple(...members).chain((lists) => fc.shuffledSubarray(lists, { minLength: lists.length })),
      gap,
    )
    .map(([lists, space]) => `{${space}${lists.flat().join(`${space},`)}${space}}`)
}

/**
 * Properties of events: `n` and `i` sum exactly, `plan` has few values, `m` has all of them, and one name is the path
 * of another.
 * @param areRefused whether ClickHouse's parser refuses some of them
 */
function eventProperties(areRefused: boolean): fc.Arbitrary<string> {
  return fc.oneof(
    {
      weight: 5,
      arbitrary: object(
        member('n', pools.NUMBERS),
        member('plan', ['"pro"', '"free"', '"\\u0070ro"', '"$other"', 'null', '5', '"5"'], 2),
        member('m', areRefused ? [...taken, ...refused] : taken),
        member('o', [...pools.OBJECTS, ...(areRefused ? pools.REFUSED_OBJECTS : []), '"pro"'], 3),
        member('a', ['{"b":5}', '{"b":"pro","b":"free"}', '{"b":null}', '{"b.c":1}', '5'], 3),
        member('a.b', ['"pro"', '5', '{"c":1}'], 3),
        ...(areRefused ? [member('i', pools.INFINITE_NUMBERS)] : []),
      ),
    },
    { weight: 1, arbitrary: object(member('n', pools.NUMBERS)) },
    {
      weight: 4,
      arbitrary: object(
        once('url', [...pools.URLS, ...pools.NO_TEXTS, ...(areRefused ? ['"/?utm_source=\\ud83d%41"'] : [])]),
        once('$current_url', pools.URLS),
        once('path', ['"/plain?x=1"', '"Home"', '5']),
        once('referrer', [...pools.REFERRERS, ...pools.NO_TEXTS]),
        once('title', ['"5 things"', '"[x]"', '"true"', '"\\u00e9"', ...(areRefused ? ['"\\ud83d"', '1e400'] : [])]),
        once('utm_source', ['"google"', '"Newsletter"', '"fb.example"', '"chatgpt.com"', '"Hacker News"', '"fb"']),
        once('utm_medium', ['"cpc"', '"CPM"', '"email"', '"social"', '"organic"', '"affiliates"', '"x"', '"referral"']),
        once('utm_campaign', ['"2024"', '2024', '"spring"']),
        once('context', pools.CONTEXTS),
      ),
    },
    {
      weight: 1,
      arbitrary: object(member('\\u006e', pools.NUMBERS), member('m', areRefused ? pools.REFUSED_TEXTS : pools.TEXTS)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        ...['{}', ' { } ', '{"":"pro"}', '{"n":null,"n":5}', ...(areRefused ? ['{"\\uD83D":5,"n":1}'] : [])],
      ),
    },
  )
}

/** Page fields: nested, with odd names, with values of every type, none, and the usual ones. */
const settings: fc.Arbitrary<Settings> = fc
  .record({
    page_views: fc.constantFrom<readonly string[]>(
      ...[DEFAULT_SETTINGS.page_views, DEFAULT_SETTINGS.page_views, ['a', '$pageview'], ['*', 'sign up', 'A'], []],
    ),
    page_fields: fc.record({
      url: fc.constantFrom<Field[]>(
        ['properties.o', 'properties.o.x', ['properties', 'a.b'], 'properties.url'],
        ['properties.context.page.url', 'properties.context.page', 'properties.$current_url', 'properties.url'],
      ),
      title: fc.constantFrom<Field[]>(['properties.m', 'properties.title'], []),
      referrer: fc.constantFrom<Field[]>(
        ['properties.a.b', 'properties.a', 'properties.referrer'],
        ['properties.x`\\'],
        [],
      ),
      source: fc.constantFrom<Field[]>(['properties.plan', 'properties.utm_source', 'properties.plan'], []),
      medium: fc.constantFrom<Field[]>(['properties.null', 'properties.1', 'properties.utm_medium'], []),
      campaign: fc.constantFrom<Field[]>(
        ['properties.n', 'properties.o.x.y'],
        [['properties', 'a.b'], 'properties.utm_campaign'],
      ),
    }),
    sessions: fc.constantFrom<Settings['sessions']>(
      ...[
        'id' as const,
        { gap: '1h' },
        { gap: '30m', where: ['is_not', 'event', ['b']] as ['is_not', string, string[]] },
      ],
    ),
  })
  .map((changed) => ({ ...changed, page_fields: { ...DEFAULT_SETTINGS.page_fields, ...changed.page_fields } }))

/** A profile cannot have the same name twice. */
const profileProperties = object(
  once('plan', ['"pro"', '"free"', '5', 'null']),
  once('n', [...pools.NUMBERS, '"5"']),
  once('a', ['{"b":5}', '"pro"']),
)

/** Random data with every trap in it. */
export function plan(events = { minLength: 30, maxLength: 250 }): fc.Arbitrary<Plan> {
  return fc
    .tuple(
      fc.constantFrom(...pools.ERAS),
      fc.array(distance, { minLength: 1, maxLength: 60 }),
      fc.shuffledSubarray(pools.NAMES, { minLength: 2, maxLength: 8 }),
      fc.shuffledSubarray(pools.EVENTS, { minLength: 2, maxLength: 5 }),
      // Rarely, because ClickHouse takes twice as long for such texts.
      fc.constantFrom(true, false, false).map(eventProperties),
      fc.shuffledSubarray(pools.SESSIONS, { minLength: 1, maxLength: 6 }),
    )
    .chain(([era, distances, names, eventNames, properties, sessionIds]) => {
      const event = fc.record({
        event: fc.constantFrom(...eventNames),
        distinct_id: fc.constantFrom(...names, ...names, pools.NOBODY),
        timestamp: fc.tuple(fc.constantFrom(...distances), aside).map(([away, by]) => era.center + away + by),
        properties,
        session_id: fc.constantFrom(...sessionIds, undefined),
        context,
      })
      return fc.record({
        zone: fc.constant(era.zone),
        center: fc.constant(era.center),
        profiles: fc.uniqueArray(fc.tuple(fc.constantFrom(...names), profileProperties), {
          selector: ([name]) => name,
        }),
        aliases: aliasesAmong(names),
        events: fc.array(event, { size: 'max', ...events }),
        sessions: fc.uniqueArray(session(era.center, distances, names, properties), {
          selector: ({ session_id }) => session_id,
          maxLength: 6,
        }),
        edits: fc.array(fc.tuple(fc.nat(), properties), { maxLength: 4 }),
        deletes: fc.array(fc.nat(), { maxLength: 4 }),
        settings: fc.oneof({ weight: 2, arbitrary: fc.constant(DEFAULT_SETTINGS) }, { weight: 1, arbitrary: settings }),
        erased: fc.oneof(
          { weight: 3, arbitrary: fc.constant<string[]>([]) },
          { weight: 1, arbitrary: fc.array(fc.constantFrom(...names), { maxLength: 2 }) },
        ),
      })
    })
}

/** What the request said about its sender; some have nothing in common, and most events have none. */
const context = fc.constantFrom<Context | undefined>(undefined, undefined, undefined, ...pools.SENDERS)

/** A session of the calls, which have whole milliseconds. */
function session(center: number, distances: number[], names: string[], properties: fc.Arbitrary<string>) {
  return fc
    .record({
      session_id: fc.constantFrom(...pools.SESSIONS),
      distinct_id: fc.constantFrom(...names, pools.NOBODY),
      state: fc.constantFrom('active', 'completed'),
      properties,
      duration: fc.constantFrom(null, null, 0, 61.5, 3600),
      at: fc.tuple(fc.constantFrom(...distances), aside).map(([away, by]) => Math.floor(center + away + by)),
      lasting: fc.constantFrom(0, 1, 30 * MINUTE_MS, 26 * HOUR_MS),
      after: fc.constantFrom(0, 1000),
      context,
    })
    .map(({ at, lasting, after, ...rest }): StoredSession => {
      const updated_at = at + lasting + after
      const ended_at = rest.state === 'completed' ? updated_at : null
      return { ...rest, started_at: at, updated_at, ended_at }
    })
}

/** Each name stands for one later in the list, or for itself: chains, but no circles. */
function aliasesAmong(names: string[]): fc.Arbitrary<[string, string][]> {
  // Names of white space are placeholders.
  const linked = names.filter((name) => name.trim() !== '')
  const each = linked
    .slice(0, -1)
    .map((name, index) =>
      fc
        .option(fc.constantFrom(...linked.slice(index + 1)), { freq: 3, nil: name })
        .map((of): [string, string] => [name, of]),
    )
  const some = fc.tuple(...each).map((pairs) => pairs.filter(([name, of]) => name !== of))
  return fc.oneof(fc.constant<[string, string][]>([]), some)
}
