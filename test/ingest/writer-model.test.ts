import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t from 'tap'
import { StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { Writer } from '../../src/ingest/writer.js'
import type { Journal, Write } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { formatEventId } from '../../src/model/event-id.js'
import { type Position, START } from '../../src/model/position.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { PROFILES } from '../../src/store/profiles.js'
import { openTables } from '../../src/store/tables.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

// Writers fail, die or hang at random steps, with real journals and a real store. In the end, each event must be stored
// once and in order, and each dead letter once. A failure prints its seed and the shortest list of commands that shows
// it; { seed, path } in fc.assert repeats it.

const RUNS = 4
const COMMANDS = 25

/** The steps of a writer in order; each can fail. */
const STEPS = ['claim', 'lastStored', 'insert', 'narrow', 'insertDeadLetter', 'settle'] as const
type Step = (typeof STEPS)[number]

/** How a step fails. A hanging one continues when the next writer has finished its own. */
type Fault = 'refused' | 'reply lost' | 'stands still before' | 'stands still after'

/** The contents of a request, which determine its outcome. */
type Kind = 'plain' | 'in two spellings' | 'damaged' | 'profile' | 'damaged profile'

class Model {
  events: { id: string; event: string }[] = []
  deadLetters: string[] = []
  profiles = new Map<string, string>()
  names = 0
}

interface Real {
  projectId: string
  journal: Journal
  /**
   * opens the journal in the next process, which finds an expired lease; the previous process may keep its connection
   */
  reopen(isKept: boolean): Promise<void>
  /** whether another process may continue while this one hangs */
  canShare: boolean
  /** continues the hanging step */
  release: (() => Promise<void>) | null
  close(): Promise<void>
}

const { clickhouse } = await emptyClickHouse()

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

type Command = fc.AsyncCommand<Model, Real>

const kinds = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constant<Kind>('plain') },
    { weight: 2, arbitrary: fc.constant<Kind>('profile') },
    { weight: 1, arbitrary: fc.constantFrom<Kind>('in two spellings', 'damaged', 'damaged profile') },
  ),
  { minLength: 1, maxLength: 4 },
)

const append = kinds.map(
  (kinds): Command => ({
    check: () => true,
    toString: () => `append ${kinds.join(', ')}`,
    async run(model, { journal, projectId }) {
      for (const kind of kinds) {
        const name = `e${++model.names}`
        const [outcome] = await journal.write([writeOf(kind, name, projectId)])
        assert(outcome?.status === 'done')
        const { position } = outcome
        if (kind === 'damaged' || kind === 'damaged profile') model.deadLetters.push(`${position}`)
        else if (kind === 'profile') model.profiles.set(name, `${position}`)
        else
          for (const [i, event] of eventsOf(kind, name).entries())
            model.events.push({ id: idOf(journal, position, i), event })
      }
    },
  }),
)

function eventsOf(kind: Kind, name: string): string[] {
  return kind === 'plain' ? [name, `${name} too`] : [name]
}

function idOf({ id: journalId }: Journal, position: Position, index: number): string {
  return formatEventId({ position, index, journalId })
}

function writeOf(kind: Kind, name: string, projectId: string): Write {
  const entry = (body: string): Write => ({
    type: 'append',
    keyClass: 'secret',
    projectId,
    count: 2,
    body: Buffer.from(body),
    ids: NO_IDS,
  })
  const commit = (row: string): Write => {
    const state = { expected: START, readAt: Date.now(), state: 'x' }
    return {
      type: 'commit',
      keyClass: 'secret',
      projectId: 'p',
      kind: 'profiles',
      stateKey: digest(name),
      ...state,
      row,
      ids: NO_IDS,
    }
  }
  switch (kind) {
    case 'plain':
      return entry(`{"events":[${eventsOf(kind, name).map((event) => `{"event":"${event}","distinct_id":"u"}`)}]}`)
    case 'in two spellings':
      return entry(`{"events":[{"event":"first","event":"${name}","distinct_id":"u"}]}`)
    case 'damaged':
      return entry('{"events":[{"event":"a","distinct_id":{"no":"text"}')
    case 'profile':
      return commit(PROFILES.row(projectId, name, { properties: new Map(), createdAt: 1, updatedAt: 1 }))
    case 'damaged profile':
      return commit('{"project_id":')
    default:
      throw new Error(`there is no ${kind satisfies never}`)
  }
}

const store = fc
  .record({
    steps: fc.integer({ min: 1, max: 12 }),
    fault: fc.constantFrom<Fault>('refused', 'reply lost', 'stands still before', 'stands still after'),
    blockBytes: fc.constantFrom(1, 200, 1_000_000),
  })
  .map(
    ({ steps, fault, blockBytes }): Command => ({
      check: () => true,
      toString: () => `store in blocks of ${blockBytes} bytes until step ${steps} is ${fault}`,
      run: async (_model, real) => storeUntil(real, { steps, fault, blockBytes }),
    }),
  )

const wake = fc.constant<Command>({
  check: () => true,
  toString: () => 'wake who stands still',
  run: async (_model, real) => {
    await real.release?.()
    real.release = null
  },
})

const read = fc.constant<Command>({
  check: () => true,
  toString: () => 'read',
  run: async (model, { projectId }) => {
    const stored = await storedEvents(projectId)
    const known = new Map(model.events.map(({ id, event }) => [id, event]))
    assert.deepEqual(
      stored.map(({ id, event }) => [id, event]),
      stored.map(({ id }) => [id, known.get(id)]),
    )
    assert.equal(new Set(stored.map(({ id }) => id)).size, stored.length, 'nothing is there twice')
  },
})

/**
 * The life of a writer: from its start until one of its steps fails, or nothing is left to do. Then its process ends,
 * and the next one opens the journal; a hanging process keeps its connection.
 */
async function storeUntil(
  real: Real,
  { steps, fault, blockBytes }: { steps: number; fault: Fault; blockBytes: number },
): Promise<void> {
  const { journal } = real
  const tables = openTables(clickhouse, journal)
  const isPause = fault.startsWith('stands still')
  const mayPause = isPause && real.canShare && !real.release
  let count = 0
  let wake = () => {}
  const woken = new Promise<void>((resolve) => {
    wake = resolve
  })
  let finished = () => {}
  const wentOn = new Promise<void>((resolve) => {
    finished = resolve
  })
  let ended = (_isPaused: boolean) => {}
  const end = new Promise<boolean>((resolve) => {
    ended = resolve
  })
  const step = async <T>(name: Step, work: () => Promise<T>): Promise<T> => {
    if (++count !== steps) {
      const result = await work()
      if (name === 'claim' && result === null) ended(false)
      return result
    }
    if (mayPause) {
      const result = fault === 'stands still after' ? await work() : undefined
      ended(true)
      await woken
      try {
        return fault === 'stands still after' ? (result as T) : await work()
      } finally {
        finished()
      }
    }
    if (fault === 'reply lost') await work()
    ended(false)
    throw new StoreUnreachableError(`${name}: ${fault}`)
  }
  const writer = new Writer({
    journal: withSteps(journal, step),
    tables: withSteps(tables, step),
    log: silent,
    pauseMs: 1,
    maxBlockBytes: blockBytes,
  })
  writer.start()
  const isPaused = await end
  if (!isPaused) {
    await writer.close()
    await real.reopen(false)
    return
  }
  real.release = async () => {
    wake()
    await wentOn
    await writer.close()
    await journal.close()
  }
  await real.reopen(true)
}

/** Wraps an object so that its steps can be intercepted. */
function withSteps<T extends object>(target: T, step: <R>(name: Step, work: () => Promise<R>) => Promise<R>): T {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      const call = (...args: unknown[]) => Reflect.apply(member, target, args)
      const known = STEPS.find((candidate) => candidate === name)
      return known ? (...args: unknown[]) => step(known, () => call(...args)) : call
    },
  })
}

async function storedEvents(projectId: string) {
  return await clickhouse.rows<{ id: string; event: string }>(
    'SELECT toString(event_id) AS id, event FROM events WHERE project_id = {project:String} ORDER BY toUInt128(event_id)',
    { project: projectId },
  )
}

/** Checks that without further failures, everything is stored once. */
async function finish(model: Model, real: Real): Promise<void> {
  await real.release?.()
  real.release = null
  await storeUntil(real, { steps: -1, fault: 'refused', blockBytes: 1000 })
  assert.equal((await real.journal.depth()).entries, 0)
  assert.deepEqual(await storedEvents(real.projectId), model.events)
  const letters = await clickhouse.rows<{ position: string }>(
    'SELECT position FROM dead_letters WHERE journal_id = {journal:UInt32} ORDER BY position',
    { journal: real.journal.id },
  )
  assert.deepEqual(
    letters.map(({ position }) => position),
    model.deadLetters,
  )
  const profiles = await clickhouse.rows<{ distinct_id: string; version: string }>(
    'SELECT distinct_id, version FROM profiles FINAL WHERE project_id = {project:String}',
    { project: real.projectId },
  )
  assert.deepEqual(new Map(profiles.map(({ distinct_id, version }) => [distinct_id, version])), model.profiles)
}

const folder = await temporaryFolder(t)
const redis = await startRedis(t)
const admin = new Redis(redis.url)
t.teardown(() => admin.disconnect())

async function start(name: 'lmdb' | 'redis'): Promise<Real> {
  const prefix = `{${randomName('journal')}}`
  const open = () =>
    name === 'lmdb'
      ? openLmdbJournal({ path: `${folder}/${prefix}`, maxBytes: 1e9 })
      : openRedisJournal({ url: redis.url, prefix, maxBytes: 1e9, log: silent })
  const real: Real = {
    projectId: randomName('project'),
    journal: await open(),
    canShare: name === 'redis',
    release: null,
    reopen: async (isKept) => {
      if (!isKept) await real.journal.close()
      await admin.del(`${prefix}:writer`)
      real.journal = await open()
    },
    close: async () => {
      await real.release?.()
      await real.journal.close()
    },
  }
  return real
}

for (const name of ['lmdb', 'redis'] as const) {
  t.test(`${name}: everything is stored once, whatever happens to a writer`, async (t) => {
    const commands = fc.commands([append, append, store, store, wake, read], { maxCommands: COMMANDS, size: 'max' })
    const property = fc.asyncProperty(commands, async (commands) => {
      const real = await start(name)
      const model = new Model()
      try {
        await fc.asyncModelRun(() => ({ model, real }), commands)
        await finish(model, real)
      } finally {
        await real.close()
      }
    })
    await fc.assert(property, { numRuns: RUNS })
    t.pass(`${RUNS} runs`)
  })
}
