import { test } from 'tap'
import { answerOf } from './reference/answer.js'
import { type StoredEvent, worldOf } from './reference/data.js'
import { jsonText, parseJson } from './reference/json.js'
import type { FunnelQuestion, Question } from './reference/question.js'
import { bucketsOf, localText, timeOf } from './reference/time.js'

/** The reference is checked with answers that a person can work out, because nothing else checks it. */

const NOW = Date.parse('2030-01-01T00:00:00Z')

/** Events as in `A1 B5`: of one user, with their minute. */
function events(text: string): StoredEvent[] {
  return text.split(' ').map((word, index) => ({
    eventId: String(index),
    event: word.slice(0, 1),
    distinct_id: 'ada',
    timestamp: Number(word.slice(1)) * 60_000,
    properties: '{}',
  }))
}

function answer(question: Question, stored: StoredEvent[], aliases: [string, string][] = []) {
  const world = worldOf({ events: stored, aliases: new Map(aliases), profiles: new Map() })
  return answerOf(question, world, NOW)
}

/** The minutes from the entry to each step that was done. */
function passage(text: string, question: Partial<FunnelQuestion> = {}): unknown[] {
  const steps = ['A', 'B', 'C'].map((event) => ({ event }))
  const asked = { kind: 'funnel' as const, from: 0, to: 1_000_000_000, steps, ...question }
  const { results } = answer(asked, events(text)) as {
    results: { steps: { users: number; mean_ms: number | null }[] }[]
  }
  return (results[0]?.steps ?? []).filter(({ users }) => users > 0).map(({ mean_ms }) => (mean_ms ?? 0) / 60_000)
}

function starts(zone: string, unit: 'hour' | 'day', from: string, to: string): string[] {
  const range = { start: timeOf(from, zone), end: timeOf(to, zone) }
  return bucketsOf(unit, range, zone, 'monday').map(({ start }) => localText(zone, start))
}

test('a day begins when the clocks of the zone begin it, and exists only if they show it', (t) => {
  t.same(starts('Africa/Cairo', 'day', '2026-04-23', '2026-04-26'), [
    '2026-04-23T00:00:00+02:00',
    '2026-04-24T01:00:00+03:00',
    '2026-04-25T00:00:00+03:00',
  ])
  t.same(starts('Pacific/Apia', 'day', '2011-12-29', '2012-01-01'), [
    '2011-12-29T00:00:00-10:00',
    '2011-12-31T00:00:00+14:00',
  ])
  t.same(starts('America/Sao_Paulo', 'day', '2018-11-03', '2018-11-05'), [
    '2018-11-03T00:00:00-03:00',
    '2018-11-04T01:00:00-02:00',
  ])
  const [, second] = bucketsOf(
    'day',
    { start: timeOf('2005-10-29', 'America/St_Johns'), end: timeOf('2005-10-31', 'America/St_Johns') },
    'America/St_Johns',
    'monday',
  )
  t.equal(second?.pieces.length, 2, 'clocks that go back at 00:01 begin the day twice')
  t.end()
})

test('an hour that occurs twice is two hours with different offsets', (t) => {
  t.same(starts('Australia/Lord_Howe', 'hour', '2026-04-05T01:00:00', '2026-04-05T03:00:00'), [
    '2026-04-05T01:00:00+11:00',
    '2026-04-05T01:30:00+10:30',
    '2026-04-05T02:00:00+10:30',
  ])
  t.same(starts('Asia/Kathmandu', 'hour', '1985-12-31T23:00:00', '1986-01-01T01:00:00'), [
    '1985-12-31T23:00:00+05:30',
    '1986-01-01T00:15:00+05:45',
  ])
  t.end()
})

test('JSON is read to the letter', (t) => {
  t.equal(jsonText(parseJson('{"a" : 1.0,"a":2, "b":[ 1e400,-0,"\\u0070",null ]}')), '{"a":1,"b":[1e400,0,"p",null]}')
  t.end()
})

test('a funnel is evaluated from each entry, and the entry that gets furthest counts', (t) => {
  t.same(passage('A1 B5 C7'), [0, 4, 6])
  t.same(passage('A1 B5 B6 C7'), [0, 4, 6])
  t.same(passage('A1 B5 A6 B7 C8'), [0, 4, 7], 'the earliest of two that get as far')
  t.same(passage('A1 B5 A6 B7 C8', { order: 'strict' }), [0, 1, 2])
  t.same(passage('C1 B5 A6', { order: 'any' }), [0, 4, 5])
  t.same(passage('B1 C1 A1'), [0], 'at the same time, the order is that of the ids')
  t.same(passage('A1 B61 C62', { window: '1h' }), [0, 60], 'the window includes its end')
  t.same(passage('A1 X2 B3', { exclude: [{ event: 'X', after: 1 }] }), [0])
  t.same(passage('A1 X2 B3', { exclude: [{ event: 'X', after: 2 }] }), [0, 2])
  t.same(passage('A1', { steps: [{ event: 'A' }, { event: 'A' }] }), [0], 'one event is not two steps')
  t.end()
})

test('aliases are one user, and nobody is not a user', (t) => {
  const stored = ['ada', 'bob', 'cyd', '$anonymous'].map((name, index) => ({
    eventId: String(index),
    event: 'a',
    distinct_id: name,
    timestamp: 5,
    properties: '{}',
  }))
  const question = {
    kind: 'series' as const,
    from: 0,
    to: 10,
    interval: 'none' as const,
    series: [
      { event: 'a' },
      { event: 'a', metric: 'users' as const },
      { event: 'a', metric: 'events_per_user' as const },
    ],
  }
  const { results } = answer(question, stored, [
    ['ada', 'bob'],
    ['bob', 'cyd'],
  ]) as { results: { total: number }[] }
  t.same(
    results.map(({ total }) => total),
    [4, 1, 3],
  )
  t.end()
})

test('a user of a cohort is back in an interval by an event after its first', (t) => {
  const day = 86_400_000
  const at = (event: string, days: number, index: number) => ({
    eventId: String(index),
    event,
    distinct_id: 'ada',
    timestamp: days * day,
    properties: '{}',
  })
  const stored = [at('a', 0.5, 0), at('b', 0.25, 1), at('b', 1.25, 2)]
  const question = {
    kind: 'retention' as const,
    from: 0,
    to: 2 * day,
    start: { event: 'a' },
    return: { event: 'b' },
    intervals: 2,
  }
  const users = (mode: 'calendar' | 'rolling') => {
    const { results } = answer({ ...question, mode }, stored) as { results: { cells: { users: number }[] }[] }
    return results[0]?.cells.map(({ users }) => users)
  }
  t.same(users('calendar'), [0, 1])
  t.same(users('rolling'), [1, 0])
  t.end()
})

const MINUTE_MS = 60_000
const DAY_MINUTES = 24 * 60

/** Events as in `A1s B5`: with the session after the minute, if they have one. */
function visits(text: string): StoredEvent[] {
  return text.split(' ').map((word, index) => {
    const [, event = '', minute = '', session = ''] = /^([A-Z])(\d+)([a-z]*)$/.exec(word) ?? []
    const named = event === 'P' ? '$pageview' : event
    const timestamp = Number(minute) * MINUTE_MS
    return {
      eventId: String(index),
      event: named,
      distinct_id: 'ada',
      timestamp,
      properties: '{}',
      session_id: session || undefined,
    }
  })
}

/** The number of sessions by the values of some fields. */
function sessions(text: string, breakdown: string[], more: object = {}): string[] {
  const series = [{ event: '$session' }]
  const question: Question = { kind: 'series', from: 0, to: 1e10, interval: 'none', series, breakdown, ...more }
  const { results } = answer(question, visits(text)) as { results: { breakdown: unknown[]; total: number }[] }
  return results.map(({ breakdown, total }) => `${breakdown.join(' ')}: ${total}`).sort()
}

test('a session by id ends where neighbors are more than 24 hours apart', (t) => {
  const fields = ['session.start', 'session.seconds']
  t.same(sessions(`P0s P30s P5t P${30 + DAY_MINUTES}s A9`, fields), [`0 ${(30 + DAY_MINUTES) * 60}: 1`, '300000 0: 1'])
  t.same(sessions(`P0s P30s P${31 + DAY_MINUTES}s`, fields), ['0 1800: 1', `${(31 + DAY_MINUTES) * MINUTE_MS} 0: 1`])
  t.end()
})

test('a session by gap has the events of a user that match, up to exactly the gap', (t) => {
  const fields = ['session.start', 'session.events']
  t.same(sessions('P0s P30t P61', fields, { sessions: { gap: '30m' } }), ['0 2: 1', '3660000 1: 1'])
  const where = ['is', 'event', ['$pageview']] as const
  t.same(sessions('P0 A10 P40', fields, { sessions: { gap: '30m', where } }), ['0 1: 1', '2400000 1: 1'])
  t.end()
})

test('a session bounced with one page view and nothing else', (t) => {
  t.same(sessions('P0s A1t P2u A3u P4v P5v', ['session.id', 'session.bounced']), [
    's true: 1',
    't : 1',
    'u false: 1',
    'v false: 1',
  ])
  t.end()
})

test('a session counts where it starts, and its events know it', (t) => {
  const range = { from: 10 * MINUTE_MS, to: 20 * MINUTE_MS }
  t.same(sessions('P9s P11s P19t P21t P20u', ['session.id', 'session.pages'], range), ['t 2: 1'])
  const series = [{ event: '$pageview', where: ['is', 'session.start', [9 * MINUTE_MS]] as ['is', string, number[]] }]
  const asked: Question = { kind: 'series', ...range, interval: 'none', series }
  const { results } = answer(asked, visits('P9s P11s P12t')) as { results: { total: number }[] }
  t.equal(results[0]?.total, 1)
  t.end()
})

test('events that a question follows beyond its range know their sessions', (t) => {
  const range = { from: 10 * DAY_MINUTES * MINUTE_MS, to: 11 * DAY_MINUTES * MINUTE_MS }
  const day = (event: string, days: number, session = '') => `${event}${days * DAY_MINUTES}${session}`
  const steps = [{ event: 'A' }, { event: '$session' }]
  const funnel = answer(
    { kind: 'funnel', ...range, steps, window: '30d' },
    visits(`${day('A', 10)} ${day('P', 30, 's')}`),
  )
  t.match(funnel.results, [{ steps: [{ users: 1 }, { users: 1 }] }])
  const path = visits(`${day('P', 5, 's')} ${day('A', 10, 't')}`)
  const paths = answer({ kind: 'paths', ...range, end: '$session', window: '30d' }, path)
  t.match(paths.results, { nodes: [{ event: '$session' }, { event: '$pageview' }, { event: '$session' }] })
  t.end()
})

test('campaign parameters come from the properties, or else from the URL of the page', (t) => {
  const values = (properties: object) => {
    const [event] = visits('P0')
    const fields = ['source', 'medium', 'campaign', 'term', 'content'].map((name) => `page.${name}`)
    return fields.map((field) => {
      const question: Question = {
        ...{ kind: 'series', from: 0, to: 1e10, interval: 'none' },
        ...{ series: [{ event: '*' }], breakdown: [field] },
      }
      const stored = [{ ...event, properties: JSON.stringify(properties) } as StoredEvent]
      const { results } = answer(question, stored) as { results: { breakdown: unknown[] }[] }
      return results[0]?.breakdown[0]
    })
  }
  const url = 'https://shop.example/?utm_source=a%2Bb+c&utm_medium=&utm_medium=%C3%BC&utm_term=%FF%41#?utm_content=x'
  t.same(values({ url }), ['a+b c', 'ü', null, '%FF%41', null])
  t.same(values({ url, utm_source: 'own', utm_campaign: 'spring' }), ['own', 'ü', 'spring', '%FF%41', null])
  t.same(values({ url: '/?utm_sources=x&xutm_source=y', referrer: 'https://blog.example/' }), [
    'blog.example',
    null,
    null,
    null,
    null,
  ])
  t.end()
})
