import t from 'tap'
import type { SessionsDefinition } from '../../../src/contract/questions.js'
import type { Session } from '../../../src/contract/responses.js'
import { buildTimeline, findSessionsFrom } from '../../../src/web/lib/timeline.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NOON = Date.UTC(2026, 5, 1, 12)

interface Event {
  eventId: string
  distinct_id: string
  timestamp: number
  session_id?: string
}

/** @param n makes the id unique; events with the same time are in the order of `n` */
function event(n: number, timestamp: number, session_id?: string, acceptedAt = timestamp): Event {
  const time = Math.floor(acceptedAt).toString(16).padStart(12, '0')
  const eventId = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(n).padStart(12, '0')}`
  return { eventId, distinct_id: 'ada', timestamp, ...(session_id !== undefined && { session_id }) }
}

function session(session_id: string, started_at: number, ended_at: number | null, updated_at = started_at): Session {
  const rest = { distinct_id: 'ada', state: 'active', properties: {}, duration: 0 } as const
  return { session_id, ...rest, started_at, updated_at, ended_at }
}

interface Given {
  hasMore?: boolean
  leftOut?: Event[]
  calls?: Session[]
  definition?: SessionsDefinition
}

function build(events: Event[], { hasMore = false, leftOut = [], calls = [], definition = 'id' }: Given = {}) {
  const ids = new Set(leftOut.map(({ eventId }) => eventId))
  return buildTimeline({ events, hasMore, leftOut: ids, calls }, definition)
}

/** The numbers of the events of each visit, after its session id or what it is. */
function list(events: Event[], given?: Given) {
  return build(events, given).map(({ visits }) =>
    visits.map(({ isSession, sessionId, events }) => {
      return [sessionId ?? (isSession ? 'gap' : 'none'), ...events.map(({ eventId }) => Number(eventId.slice(-12)))]
    }),
  )
}

t.test('an event without a session id does not split a session, and is not a part of it', async (t) => {
  const events = [event(1, NOON, 's1'), event(2, NOON + MINUTE), event(3, NOON + 2 * MINUTE, 's1')]
  t.strictSame(list(events), [
    [
      ['none', 2],
      ['s1', 3, 1],
    ],
  ])
  const calls = [session('s1', NOON, NOON + 9 * MINUTE), session('s2', NOON, NOON + 9 * MINUTE)]
  t.strictSame(list(events, { calls }), list(events), 'not of any that was open, as in questions')
})

t.test('sessions that overlap are one visit each', async (t) => {
  const ids = ['phone', 'laptop', 'phone', 'laptop']
  const events = ids.map((id, i) => event(i, NOON + i * MINUTE, id))
  t.strictSame(list(events), [
    [
      ['laptop', 3, 1],
      ['phone', 2, 0],
    ],
  ])
  const [laptop, phone] = build(events)[0]?.visits ?? []
  t.strictSame([laptop?.start, laptop?.end], [NOON + MINUTE, NOON + 3 * MINUTE])
  t.strictSame([phone?.start, phone?.end], [NOON, NOON + 2 * MINUTE])
})

t.test('the timeline does not depend on the order in which events are loaded', async (t) => {
  const ids = ['a', undefined, 'b', 'a', undefined, undefined, 'b', 'a']
  const events = ids.map((id, i) => event(i, NOON + i * 5 * HOUR, id))
  const given = { calls: [session('a', NOON - HOUR, null)] }
  t.strictSame(list(events.toReversed(), given), list(events, given))
  t.strictSame(list([...events.slice(4), ...events.slice(0, 4)], given), list(events, given))
})

t.test('events at the same time are in the order of their acceptance', async (t) => {
  t.strictSame(list([event(1, NOON, 's'), event(3, NOON, 's'), event(2, NOON, 's')]), [[['s', 3, 2, 1]]])
})

t.test('a visit is on the day that it started on, even if a later one ended before it', async (t) => {
  const midnight = NOON + 12 * HOUR
  const events = [
    event(1, midnight - MINUTE, 'over'),
    event(2, midnight + MINUTE, 'after'),
    event(3, midnight + 2 * MINUTE, 'over'),
    event(4, midnight - 2 * MINUTE),
    event(5, midnight + 3 * MINUTE),
  ]
  t.strictSame(list(events), [
    [
      ['none', 5],
      ['after', 2],
    ],
    [
      ['over', 3, 1],
      ['none', 4],
    ],
  ])
})

t.test('a session id that is used again after more than a day begins another session', async (t) => {
  const events = [event(1, NOON, 'again'), event(2, NOON + DAY, 'again'), event(3, NOON + 2 * DAY + 1, 'again')]
  t.strictSame(list(events), [[['again', 3]], [['again', 2, 1]]])
  const between = session('again', NOON + 1.5 * DAY, null)
  t.strictSame(list(events, { calls: [between] }), [[['again', 3, 2, 1]]], 'its calls are neighbors, too')
})

t.test('by gap, pauses separate sessions, whatever their ids', async (t) => {
  const midnight = NOON + 12 * HOUR
  const events = [
    event(1, midnight - 50 * MINUTE, 's'),
    event(2, midnight - 20 * MINUTE),
    event(3, midnight + 10 * MINUTE, 't'),
    event(4, midnight + 40 * MINUTE + 1),
  ]
  const definition = { gap: '30m' }
  t.strictSame(list(events, { definition }), [[['gap', 4]], [['gap', 3, 2, 1]]])
  const anonymous = events.map((one) => ({ ...one, distinct_id: '$anonymous' }))
  t.strictSame(list(anonymous, { definition }), [[['none', 4, 3]], [['none', 2, 1]]], 'no user has none')
})

t.test('by gap, events that the filter leaves out belong to no session', async (t) => {
  const events = [0, 20, 40, 60, 80].map((minute, i) => event(i, NOON + minute * MINUTE))
  const leftOut = events.slice(2, 4)
  t.strictSame(list(events, { definition: { gap: '30m' }, leftOut }), [
    [
      ['gap', 4],
      ['none', 3, 2],
      ['gap', 1, 0],
    ],
  ])
})

t.test('the length of a visit includes the heartbeats of its session', async (t) => {
  const measure = (id: string | undefined, at: number, calls: Session[]) => {
    const visits = build([event(1, at, id)], { calls }).flatMap(({ visits }) => visits)
    return visits.map(({ start, end }) => end - start)
  }
  const read = session('read', NOON + 1000, null, NOON + 5 * MINUTE)
  t.strictSame(measure('read', NOON, [session('other', NOON, NOON + 9 * MINUTE), read]), [5 * MINUTE])
  t.strictSame(measure('read', NOON + 3 * DAY, [read]), [0], 'days later')
  t.strictSame(measure('unknown', NOON, [read]), [0])
  t.strictSame(measure(undefined, NOON - MINUTE, [read]), [0])
})

t.test('a session that may have begun before the loaded events says so', async (t) => {
  const find = (events: Event[], given: Given) => {
    const visits = build(events, given).flatMap(({ visits }) => visits)
    return visits.filter(({ mayBeginEarlier }) => mayBeginEarlier).map(({ sessionId }) => sessionId)
  }
  const events = [
    event(1, NOON),
    event(2, NOON + 10 * MINUTE, 'first'),
    event(3, NOON + 20 * MINUTE, 'called'),
    event(4, NOON + 30 * MINUTE, 'second'),
    event(5, NOON + 30 * MINUTE + 1, 'third'),
    event(6, NOON + 5 * HOUR, 'first'),
  ]
  const call = (at: number) => ({ hasMore: true, calls: [session('called', at, null)] })
  t.strictSame(find(events, { hasMore: true }), ['second', 'called', 'first'], 'not after a pause of 30 minutes')
  t.strictSame(find(events, call(NOON + 20 * MINUTE)), ['second', 'first'])
  t.strictSame(find(events, call(NOON)), ['second', 'first', 'called'])
  t.strictSame(find(events, { hasMore: false }), [], 'all are loaded')
  const imported = events.map(({ timestamp, session_id }, i) => event(i, timestamp, session_id, NOON + 9 * DAY))
  t.strictSame(find(imported, { hasMore: true }), ['third', 'second', 'called', 'first'], 'in any order')

  const hourly = [event(1, NOON), event(2, NOON + HOUR)]
  const by = (gap: string) => find(hourly, { hasMore: true, definition: { gap } }).length
  t.equal(by('59m'), 1, 'only the session of the earliest event')
  t.equal(by('1h'), 1, 'all are one')
})

t.test('findSessionsFrom is a whole number, as the service asks for, although times may have fractions', async (t) => {
  const from = findSessionsFrom([event(1, NOON), event(2, NOON - 0.5)])
  t.equal(from, NOON - 1 - DAY)
  t.equal(findSessionsFrom([]), null)
})
