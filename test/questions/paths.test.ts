import t from 'tap'
import type { Paths } from '../../src/contract/questions.js'
import { newProject, type Project } from '../shared-app.js'

const MINUTE = 60_000
const FROM = Date.parse('2026-03-01T00:00:00Z')
const DAY = 86_400_000

let shared: Promise<Project> | undefined
const project = () => {
  shared ??= newProject()
  return shared
}

/** By user: events as `name@minute`, in the order of their ids. */
type Journeys = Record<string, string>

let days = 0
/** Each test uses a different day, so that they can share a project. */
async function send(journeys: Journeys): Promise<object> {
  const from = FROM + 3 * DAY * days++
  const events = Object.entries(journeys).flatMap(([distinct_id, journey]) =>
    journey.split(' ').map((text) => {
      const [event = '', minute] = text.split('@')
      return {
        event,
        distinct_id,
        timestamp: from + Number(minute) * MINUTE,
        properties: { isLate: Number(minute) > 5 },
      }
    }),
  )
  await (await project()).call('POST', '/public/track/batch', { events })
  return { kind: 'paths', from, to: from + DAY }
}

async function ask(question: object) {
  const response = await (await project()).call('POST', '/public/query', question)
  if (response.statusCode !== 200) throw new Error(response.body)
  return response.json().results
}

/** `step event users`, and `step from>to users`. */
async function pathsOf(journeys: Journeys, question: object) {
  const { nodes, links }: Paths = await ask({ ...(await send(journeys)), ...question })
  return {
    nodes: nodes.map(({ step, event, users }) => `${step} ${event} ${users}`),
    links: links.map(({ step, from, to, users }) => `${step} ${from}>${to} ${users}`),
  }
}

t.test('every start begins a path, and a user counts once per node and link', async (t) => {
  const journeys = { ann: 'x@0 a@1 b@2 a@3 b@4 c@5', bob: 'a@0 c@0', cid: 'b@1 c@2', $anonymous: 'a@1 b@2' }
  t.strictSame(await pathsOf(journeys, { start: { event: 'a' }, steps: 2 }), {
    nodes: ['0 a 2', '1 b 1', '1 c 1', '2 a 1', '2 c 1'],
    links: ['0 a>b 1', '0 a>c 1', '1 b>a 1', '1 b>c 1'],
  })
})

t.test('paths to an end go back in time', async (t) => {
  const journeys = { ann: 'b@0 a@1 z@1', bob: 'a@0 z@9', cid: 'z@0 z@1' }
  t.strictSame(await pathsOf(journeys, { end: { event: 'z' }, steps: 2 }), {
    nodes: ['0 z 3', '1 a 2', '1 z 1', '2 b 1'],
    links: ['0 a>z 2', '0 z>z 1', '1 b>a 1'],
  })
})

t.test('paths from some sessions have all sessions among their steps', async (t) => {
  const question = { sessions: { gap: '30m' }, window: '2h', steps: 3 }
  const some = { event: '$session', where: ['session_has', { event: 'a' }] }
  t.strictSame((await pathsOf({ ann: 'a@0 b@40' }, { ...question, start: some })).nodes, [
    ...['0 $session 1', '1 a 1', '2 $session 1', '3 b 1'],
  ])
  t.strictSame((await pathsOf({ ann: 'b@0 a@40' }, { ...question, end: some })).nodes, [
    ...['0 $session 1', '1 b 1', '2 $session 1'],
  ])
})

t.test('the window counts from the start, even past the range', async (t) => {
  const late = (minute: number) => 24 * 60 + minute
  const journeys = {
    ann: `a@0 b@20 c@30 d@31`,
    bob: `a@${late(-1)} b@${late(29)} c@${late(30)}`,
    cid: `a@${late(0)} b@${late(1)}`,
  }
  t.strictSame((await pathsOf(journeys, { start: { event: 'a' } })).nodes, ['0 a 2', '1 b 2', '2 c 1'])
})

t.test('the window counts to the end, even before the range', async (t) => {
  const journeys = { ann: 'd@-1 c@0 b@10 z@30', bob: 'c@-29 b@-28 z@1', cid: 'b@-2 z@-1' }
  t.strictSame((await pathsOf(journeys, { end: { event: 'z' } })).nodes, ['0 z 2', '1 b 2', '2 c 2'])
})

t.test('a filter of the question selects events, a filter of the start selects where paths begin', async (t) => {
  const journeys = { ann: 'a@0 b@1 a@6 b@7 c@8', bob: 'a@1 b@2' }
  const isLate = ['is', 'properties.isLate', [true]]
  t.strictSame((await pathsOf(journeys, { start: { event: 'a' }, where: isLate })).nodes, ['0 a 1', '1 b 1', '2 c 1'])
  t.strictSame((await pathsOf(journeys, { start: { event: '*', where: isLate }, steps: 1 })).nodes, [
    '0 a 1',
    '0 b 1',
    '0 c 1',
    '1 b 1',
    '1 c 1',
  ])
})

t.test('without users there are no nodes', async (t) => {
  t.strictSame(await pathsOf({ ann: 'b@0' }, { start: { event: 'a' } }), { nodes: [], links: [] })
})

t.test('names beyond the limit of a step share a node, which counts each user once', async (t) => {
  const journeys = {
    ann: 'a@0 b@1 x@2',
    bob: 'a@0 b@1 y@2',
    cid: 'a@0 c@1 x@2',
    dan: 'a@0 d@1 b@2 a@60 c@61 b@62',
    eve: 'a@0 d@1 x@2',
    fay: 'a@0 B@1',
  }
  const question = { ...(await send(journeys)), start: { event: 'a' }, steps: 2, limit: 2 }
  t.strictSame(await ask(question), {
    nodes: [
      { step: 0, event: 'a', users: 6 },
      { step: 1, event: 'b', users: 2 },
      { step: 1, event: 'c', users: 2 },
      { step: 1, event: '$other', users: 3 },
      { step: 2, event: 'x', users: 3 },
      { step: 2, event: 'b', users: 1 },
      { step: 2, event: '$other', users: 1 },
    ],
    links: [
      { step: 0, from: 'a', to: 'b', users: 2 },
      { step: 0, from: 'a', to: 'c', users: 2 },
      { step: 0, from: 'a', to: '$other', users: 3 },
      { step: 1, from: 'b', to: 'x', users: 1 },
      { step: 1, from: 'c', to: 'b', users: 1 },
      { step: 1, from: 'c', to: 'x', users: 1 },
      { step: 1, from: '$other', to: 'b', users: 1 },
      { step: 1, from: '$other', to: 'x', users: 1 },
      { step: 1, from: 'b', to: '$other', users: 1 },
    ],
  })
})

t.test('the users of a node or link are the users that it counts', async (t) => {
  const journeys = {
    ann: 'a@0 b@1 a@40 b@41 z@41',
    bob: 'a@0 b@1',
    cid: 'a@0 c@1 z@2',
    dan: 'a@0 d@1 z@2',
    eve: 'a@0',
  }
  const of = { ...(await send(journeys)), start: { event: 'a' }, steps: 2, limit: 1 }
  const usersOf = async (cell: object, question: object = of) => {
    const { users, count } = await ask({ kind: 'users', of: question, cell })
    t.equal(count, users.length)
    return users.join(' ')
  }
  t.equal(await usersOf({ step: 0, event: 'a' }), 'ann bob cid dan eve')
  t.equal(await usersOf({ step: 1, event: 'b' }), 'ann bob')
  t.equal(await usersOf({ step: 1, event: '$other' }), 'cid dan')
  t.equal(await usersOf({ step: 0, from: 'a', to: 'b' }), 'ann bob')
  t.equal(await usersOf({ step: 0, from: 'a', to: '$other' }), 'cid dan')
  t.equal(await usersOf({ step: 1, from: '$other', to: 'z' }), 'cid dan')
  t.equal(await usersOf({ step: 1, from: 'b', to: 'z' }), 'ann')
  const { start, ...rest } = of
  t.equal(await usersOf({ step: 1, from: 'a', to: 'b' }, { ...rest, end: { event: 'z' } }), 'ann')
  t.equal(await usersOf({ step: 0, from: '$other', to: 'z' }, { ...rest, end: { event: 'z' } }), 'cid dan')
})

t.test('a user with several names counts once', async (t) => {
  await (await project()).call('POST', '/public/users/alias', { distinct_id: 'u1', alias: 'u2' })
  await (await project()).call('POST', '/public/users/alias', { distinct_id: 'u0', alias: 'u1' })
  const journeys = { u2: 'a@0', u1: 'b@1', u0: 'c@2', else: 'a@0 b@1' }
  t.strictSame(await pathsOf(journeys, { start: { event: 'a' } }), {
    nodes: ['0 a 2', '1 b 2', '2 c 1'],
    links: ['0 a>b 2', '1 b>c 1'],
  })
})
