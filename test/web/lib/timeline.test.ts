import t from 'tap'
import type { Session } from '../../../src/contract/responses.js'
import { buildTimeline, findSessionsFrom, measureVisit } from '../../../src/web/lib/timeline.js'

const MINUTE = 60_000
const NOON = Date.UTC(2026, 5, 1, 12)

const event = (id: string, timestamp: number, more = {}) => ({ eventId: id, timestamp, ...more })
const session = (id: string, started_at: number, ended_at: number | null, updated_at = started_at): Session => {
  return {
    session_id: id,
    distinct_id: 'ada',
    state: 'active',
    properties: {},
    duration: 0,
    started_at,
    updated_at,
    ended_at,
  }
}

t.test('buildTimeline groups events by day and session, the latest first', async (t) => {
  const events = [
    event('1', NOON - 24 * 60 * MINUTE),
    event('2', NOON),
    event('3', NOON + 10 * MINUTE, { session_id: 'said' }),
    event('4', NOON + 5 * MINUTE),
    event('5', NOON + 20 * MINUTE),
  ]
  const sessions = [
    session('open', NOON + 19 * MINUTE, null, NOON + 21 * MINUTE),
    session('over', NOON - MINUTE, NOON + 15 * MINUTE),
  ]
  const days = buildTimeline(events, sessions, 'id').map(({ visits }) => {
    return visits.map(({ sessionId, events }) => [sessionId, ...events.map(({ eventId }) => eventId)])
  })
  t.strictSame(days, [
    [
      ['open', '5'],
      ['said', '3'],
      ['over', '4', '2'],
    ],
    [[null, '1']],
  ])
})

t.test('buildTimeline separates sessions by pauses, and keeps one over midnight whole', async (t) => {
  const midnight = NOON + 12 * 60 * MINUTE
  const events = [
    event('1', midnight - 50 * MINUTE, { session_id: 'said' }),
    event('2', midnight - 20 * MINUTE),
    event('3', midnight + 10 * MINUTE, { session_id: 'other' }),
    event('4', midnight + 10 * MINUTE + 1 + 30 * MINUTE),
  ]
  const days = buildTimeline(events, [session('over', midnight, midnight)], { gap: '30m' })
  t.strictSame(
    days.map(({ visits }) =>
      visits.map(({ of, sessionId, events }) => [of, sessionId, ...events.map((e) => e.eventId)]),
    ),
    [[['gap', null, '4']], [['gap', null, '3', '2', '1']]],
  )
})

t.test('buildTimeline starts a new session if an id is used again after more than a day', async (t) => {
  const day = 24 * 60 * MINUTE
  const events = [
    event('1', NOON, { session_id: 'again' }),
    event('2', NOON + day, { session_id: 'again' }),
    event('3', NOON + 2 * day + 1, { session_id: 'again' }),
  ]
  const visits = buildTimeline(events, [], 'id').flatMap(({ visits }) => visits)
  t.strictSame(
    visits.map(({ events }) => events.map(({ eventId }) => eventId)),
    [['3'], ['2', '1']],
  )
})

t.test('measureVisit counts the heartbeats of the session that the events belong to', async (t) => {
  const measure = (id: string | undefined, at: number, sessions: Session[]) => {
    const events = [event('1', at, id === undefined ? {} : { session_id: id })]
    const visits = buildTimeline(events, sessions, 'id').flatMap(({ visits }) => visits)
    return visits.map((visit) => measureVisit(visit, sessions))
  }
  const read = session('read', NOON + 1000, null, NOON + 5 * MINUTE)
  t.strictSame(measure('read', NOON, [session('other', NOON, NOON + 9 * MINUTE), read]), [5 * MINUTE])
  t.strictSame(measure('read', NOON + 3 * 24 * 60 * MINUTE, [read]), [0], 'days later')
  t.strictSame(measure('unknown', NOON, [read]), [0])
  t.strictSame(measure(undefined, NOON - MINUTE, [read]), [0])
})

t.test('findSessionsFrom is a whole number, as the service asks for, although times may have fractions', async (t) => {
  const from = findSessionsFrom([event('1', NOON), event('2', NOON - 0.5)])
  t.equal(from, NOON - 1 - 24 * 60 * MINUTE)
  t.equal(findSessionsFrom([]), null)
})
