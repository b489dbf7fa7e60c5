import fc from 'fast-check'
import t from 'tap'
import { parseProperties } from '../../src/model/properties.js'
import {
  endSession,
  formatSession,
  measureDuration,
  parseSession,
  type Session,
  startSession,
  updateSession,
} from '../../src/model/session.js'

const p = parseProperties
const active: Session = {
  distinctId: 'ann',
  state: 'active',
  properties: p('{"a":1,"b":2.0}'),
  duration: null,
  startedAt: 1000,
  updatedAt: 2000,
  endedAt: null,
  context: {},
}
const completed: Session = { ...active, state: 'completed', endedAt: 2000 }
const calls = {
  start: (session: Session | null, who: string) => startSession(session, who, p('{"b":3,"c":[4.0]}'), { now: 5000 }),
  update: (session: Session | null, who: string) => updateSession(session, who, p('{"b":3,"c":[4.0]}'), { now: 5000 }),
  end: (session: Session | null, who: string) => endSession(session, who, 5000),
}
const merged: Session = { ...active, properties: p('{"a":1,"b":3,"c":[4.0]}'), updatedAt: 5000 }

t.test('startSession creates a session, merges into it, and refuses a completed one', async (t) => {
  t.same(calls.start(null, 'ann'), {
    distinctId: 'ann',
    state: 'active',
    properties: p('{"b":3,"c":[4.0]}'),
    duration: null,
    startedAt: 5000,
    updatedAt: 5000,
    endedAt: null,
    context: {},
  })
  t.same(calls.start(active, 'ann'), merged)
  t.throws(() => calls.start(completed, 'ann'), { code: 'session_ended' })
})

t.test('updateSession merges properties and creates nothing', async (t) => {
  t.throws(() => calls.update(null, 'ann'), { code: 'not_found' })
  t.same(calls.update(active, 'ann'), merged)
  t.throws(() => calls.update(completed, 'ann'), { code: 'session_ended' })
})

t.test('endSession completes a session and may be repeated', async (t) => {
  t.throws(() => calls.end(null, 'ann'), { code: 'not_found' })
  t.same(calls.end(active, 'ann'), { ...active, state: 'completed', updatedAt: 5000, endedAt: 5000 })
  t.equal(calls.end(completed, 'ann'), completed, 'the very same object')
})

t.test("another user's call is refused in every state, before anything else", async (t) => {
  for (const call of Object.values(calls)) {
    for (const session of [active, completed]) {
      t.throws(() => call(session, 'bob'), { code: 'session_owner_mismatch' })
    }
  }
})

t.test('a call does not modify the given session and properties', async (t) => {
  const before = formatSession(active)
  const given = p('{"a":9}')
  for (const call of Object.values(calls)) call(active, 'ann')
  const started = startSession(null, 'ann', given, { now: 1 })
  t.equal(formatSession(active), before)
  started.properties.set('a', '0')
  t.same(given, p('{"a":9}'))
})

t.test('properties merge, known names keep their place', async (t) => {
  const session = updateSession(active, 'ann', p('{"c":1e400,"a":null,"__proto__":1}'), { now: 5000 })
  t.same([...session.properties], [...p('{"a":null,"b":2.0,"c":1e400,"__proto__":1}')])
  t.same(updateSession(active, 'ann', null, { now: 5000 }).properties, active.properties)
  t.same(startSession(null, 'ann', null, { now: 5000 }).properties, new Map())
})

t.test('a session has the context of the first call that has one', async (t) => {
  const first = startSession(null, 'ann', null, { now: 1 })
  const second = updateSession(first, 'ann', null, { now: 2, context: { os: 'Linux' } })
  const third = updateSession(second, 'ann', null, { now: 3, context: { os: 'Windows' } })
  t.strictSame([first.context, second.context, third.context], [{}, { os: 'Linux' }, { os: 'Linux' }])
  t.strictSame(parseSession(formatSession(third)), third)
})

t.test('a session has the greatest duration that the client sent', async (t) => {
  const sent = (text: string, duration: number | null = null) => {
    const session = updateSession({ ...active, duration }, 'ann', p(`{"duration":${text}}`), { now: 5000 })
    t.equal(session.properties.get('duration'), text, 'it stays a property, as it was spelled')
    return session.duration
  }
  t.equal(sent('90.50'), 90.5)
  t.equal(sent('0'), 0)
  t.equal(sent('100', 90), 100)
  t.equal(sent('80', 90), 90, 'never goes down')
  t.equal(sent('-5'), 0, 'never below 0')
  t.ok(Object.is(sent('-0.0'), 0))
  for (const text of ['"100"', 'null', 'true', '[100]', '{"duration":1}', '1e400', '-1e400']) {
    t.equal(sent(text), null, text)
    t.equal(sent(text, 90), 90, text)
  }
  t.equal(startSession(null, 'ann', p('{"duration":7}'), { now: 5000 }).duration, 7)
  t.equal(startSession(active, 'ann', p('{"duration":7}'), { now: 5000 }).duration, 7)
  t.equal(updateSession({ ...active, duration: 90 }, 'ann', null, { now: 5000 }).duration, 90)
  t.equal(measureDuration({ ...active, duration: 90 }), 90)
  t.equal(measureDuration({ ...active, duration: 0 }), 0)
})

t.test('measureDuration returns the seconds between start and last call if the client sent no duration', async (t) => {
  const started = startSession(null, 'ann', null, { now: 10_000 })
  t.equal(measureDuration(started), 0)
  const updated = updateSession(started, 'ann', null, { now: 11_234 })
  t.equal(measureDuration(updated), 1.234)
  const ended = endSession(updated, 'ann', 12_500)
  t.equal(measureDuration(ended), 2.5, 'the end is a call too')
  t.equal(measureDuration(endSession(ended, 'ann', 99_000)), 2.5, 'a repeated end is none')
})

t.test('whatever the calls and the clock, durations and times never decrease', async () => {
  const call = fc.record({
    kind: fc.constantFrom('start', 'update', 'end'),
    now: fc.nat({ max: 100 }),
    duration: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true })),
  })
  fc.assert(
    fc.property(fc.nat({ max: 100 }), fc.array(call), (startedAt, calls) => {
      let session = startSession(null, 'ann', null, { now: startedAt })
      for (const { kind, now, duration } of calls) {
        const before = session
        const properties = duration === null ? null : p(`{"duration":${duration}}`)
        if (kind === 'end') session = endSession(before, 'ann', now)
        else if (before.state === 'completed') continue
        else if (kind === 'update') session = updateSession(before, 'ann', properties, { now })
        else session = startSession(before, 'ann', properties, { now })
        if (session.startedAt !== startedAt || session.updatedAt < before.updatedAt) return false
        if (session.updatedAt < now && before.state === 'active') return false
        if (before.duration !== null && (session.duration ?? -1) < before.duration) return false
        if (measureDuration(session) < 0) return false
        if (session.endedAt !== null && session.endedAt !== session.updatedAt) return false
      }
      return true
    }),
  )
})

t.test('parseSession reverses formatSession', async (t) => {
  const awkward = p('{"state":"x","properties":{"b":1.0},"__proto__":1e400,"n":9007199254740993}')
  for (const session of [
    active,
    completed,
    { ...active, distinctId: '"\\\n😀', duration: 1.5e300, properties: awkward },
    startSession(null, '', null, { now: 0 }),
  ]) {
    const state = formatSession(session)
    JSON.parse(state)
    const read = parseSession(state)
    t.same(read, session)
    t.same([...read.properties], [...session.properties])
  }
  t.throws(() => parseSession('{}'))
})
