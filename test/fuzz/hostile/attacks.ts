import { randomBytes, randomUUID } from 'node:crypto'
import { type Answer, type Calls, type Keys, zipped } from './calls.js'

/** The keys of the attacking project. */
export type Keyring = Keys

interface Turn {
  connection: number
  /** counts the calls of a connection */
  turn: number
}

/** One way in which the holder of a key could try to stop the others. */
export interface Attack {
  name: string
  /** the row of the table of known attacks */
  row: string
  connections: number
  /** prepares what the attack needs, before the measurement */
  prepare?(calls: Calls, keys: Keyring): Promise<unknown>
  /** one call; each connection repeats it */
  step(calls: Calls, keys: Keyring, turn: Turn): Promise<Answer>
}

/** Events of the attacking project, for long reads. */
export const STORED_EVENTS = 1_000_000
export const STORED_USERS = 50_000
/** Number of dead letters, of 17 MB each. */
export const LETTERS = 10
export const LETTER_BYTES = 17_000_000

const MIB = 1024 * 1024
const PAGE = 10_000
const CHAIN = 900
const PROFILES = 50
const RANGE = { from: '2025-10-09', to: '2025-10-10' }
const SERIES = { kind: 'series', series: [{ event: 'a' }], ...RANGE }

const of = <Item>(items: readonly Item[], n: number): Item => items[n % items.length] as Item
const pick = (count: number): number => Math.floor(Math.random() * count)

const profile = (size: number) => ({ n: 0, text: 'x'.repeat(size) })
const LARGE_PROFILE = profile(MIB - 200)
const LARGE_BATCH = zipped({
  events: Array.from({ length: 1000 }, (_, n) => ({ event: 'b', distinct_id: `u${n}`, properties: profile(13_000) })),
})
const VENDOR_BATCH = zipped({
  batch: Array.from({ length: 900 }, (_, n) => ({
    type: 'track',
    event: 'b',
    userId: `u${n}`,
    properties: profile(10_000),
  })),
})

/**
 * Filters that cost ClickHouse far more than their sender: the most expensive accepted ones, and others beyond the
 * limit.
 */
const PATTERNS = [
  (n: number) => patterns(20, (i) => `${n}${i}(.?){60}(x{1,100}y*){6}${i}$`),
  (n: number) => patterns(20, (i) => `${i}((a|b|[0-9]){1,15}){1,15}z${n}$`),
  (n: number) => [['matches', 'distinct_id', Array.from({ length: 1000 }, (_, i) => `w${i}(.?){2}${n}$`)]],
  (n: number) => patterns(20, (i) => `${n}${i}(.?){200}(x{1,100}y*){9}${i}$`),
]

function patterns(count: number, pattern: (i: number) => string): string[][] {
  return Array.from({ length: count }, (_, i) => ['matches', 'distinct_id', pattern(i)])
}

export const ATTACKS: readonly Attack[] = [
  {
    name: 'new insert_ids',
    row: 'a',
    connections: 8,
    step: (calls, { write }) =>
      calls.call({
        path: '/public/track/batch',
        key: write,
        gzip: zipped({
          events: Array.from({ length: 1000 }, () => ({ event: 'a', distinct_id: 'u', insert_id: randomUUID() })),
        }),
      }),
  },
  {
    name: 'patterns',
    row: 'b',
    connections: 8,
    step: (calls, { read }, { turn }) =>
      calls.call({ path: '/public/query', key: read, body: { ...SERIES, where: ['or', of(PATTERNS, turn)(turn)] } }),
  },
  {
    name: 'full exports',
    row: 'd',
    connections: 30,
    step: (calls, { read }) => calls.call({ path: '/public/export', key: read }),
  },
  {
    name: 'deep pages',
    row: 'd',
    connections: 16,
    step: (calls, { read }) =>
      calls.call({ path: `/public/events?limit=${PAGE}&page=${1 + pick(STORED_EVENTS / PAGE)}`, key: read }),
  },
  {
    name: 'filters without matches',
    row: 'd',
    connections: 16,
    step: (calls, { read }, { turn }) => {
      const filter = of(['distinct_id=nobody', 'event=nothing', 'order=desc&event=a&distinct_id=nobody'], turn)
      return calls.call({ path: `/public/events?limit=100&${filter}-${turn}`, key: read })
    },
  },
  {
    name: 'lists',
    row: 'd',
    connections: 16,
    prepare: (calls, { secret }) => saveQuestions(calls, secret),
    step: (calls, { read }, { turn }) => calls.call({ path: `/public/${of(LISTS, turn)}`, key: read }),
  },
  {
    name: 'dead letters of 17 MB',
    row: 'd',
    connections: 8,
    step: (calls, { read }) => calls.call({ path: '/public/dead-letters?limit=100', key: read }),
  },
  {
    name: 'chains of aliases',
    row: 'e',
    connections: 64,
    step: (calls, { write, read }, { connection, turn }) => {
      if (connection === 0) return calls.call({ path: '/public/query', key: read, body: USERS })
      const name = (at: number) => `chain-${connection}-${Math.floor(turn / CHAIN)}-${at}`
      const at = turn % CHAIN
      return calls.call({
        path: '/public/users/alias',
        key: write,
        body: { distinct_id: name(at + 1), alias: name(at) },
      })
    },
  },
  {
    name: '$add on large profiles',
    row: 'f',
    connections: 8,
    prepare: async (calls, { secret }) => {
      for (let n = 0; n < PROFILES; n++) {
        await calls.succeed({
          path: '/public/users/identify',
          key: secret,
          body: { distinct_id: `large-${n}`, properties: LARGE_PROFILE },
        })
      }
    },
    step: (calls, { write }) => {
      const body = { distinct_id: `large-${pick(PROFILES)}`, operations: { $add: { n: 1 } } }
      return calls.call({ path: '/public/users/profile', key: write, body })
    },
  },
  {
    name: 'batches of 13 MB',
    row: 'f',
    connections: 4,
    step: (calls, { write }) => calls.call({ path: '/public/track/batch', key: write, gzip: LARGE_BATCH }),
  },
  {
    name: "vendors' batches of 9 MB",
    row: 'f',
    connections: 4,
    step: (calls, { write }) =>
      calls.call({ path: '/segment/v1/batch', key: write, headers: basic(write), gzip: VENDOR_BATCH }),
  },
  {
    name: 'erasing in a loop',
    row: 'g',
    connections: 4,
    step: (calls, { secret }) => {
      const users = Array.from({ length: 5 }, () => `user-${pick(STORED_USERS)}`)
      return calls.call({ path: '/public/users/erase', key: secret, body: { distinct_ids: users } })
    },
  },
  {
    name: 'idempotency keys',
    row: 'h',
    connections: 32,
    step: (calls, { write }) => {
      const headers = { 'idempotency-key': randomBytes(12).toString('hex') }
      return calls.call({ path: '/public/track', key: write, headers, body: { event: 'a', distinct_id: 'u' } })
    },
  },
  {
    name: 'large profiles',
    row: 'c',
    connections: 8,
    step: (calls, { write }) =>
      calls.call({
        path: '/public/users/identify',
        key: write,
        gzip: zipped({ distinct_id: randomUUID(), properties: LARGE_PROFILE }),
      }),
  },
  {
    name: 'large sessions',
    row: 'c',
    connections: 16,
    step: (calls, { public: key }) => {
      const names = { distinct_id: randomUUID(), session_id: randomUUID() }
      return calls.call({
        path: '/public/sessions/start',
        key,
        gzip: zipped({ ...names, properties: profile(60_000) }),
      })
    },
  },
]

const USERS = { kind: 'series', series: [{ event: 'a', metric: 'users' }], ...RANGE }

const LISTS = [
  'questions',
  'schema/events',
  'users?limit=1000',
  'schema/properties',
  'users?search=zz',
  'schema/values?field=distinct_id&search=zz&limit=1000',
  'sessions?limit=1000',
]

/** Saves the maximum number of questions of a project. */
async function saveQuestions(calls: Calls, key: string): Promise<void> {
  const display = { text: 'x'.repeat(240 * 1024) }
  for (let n = 0; n < 64; n++) {
    const body = { name: `Question ${n}`, question: SERIES, display }
    await calls.call({ method: 'PUT', path: `/public/questions/q${n}`, key, body })
  }
}

function basic(key: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }
}
