import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ApiError } from '../../src/contract/errors.js'
import { GroupCommit } from '../../src/ingest/group-commit.js'
import { type Journal, STATE_MEMORY_MS } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { ByteBudget } from '../../src/lib/byte-budget.js'
import type { Position } from '../../src/model/position.js'
import { type IdempotencyKey, NO_IDS } from '../../src/model/request-ids.js'
import { toStateKey } from '../../src/model/state-key.js'
import { FencedError, type StateLimits, StateStore } from '../../src/states/state-store.js'
import type { StateTable } from '../../src/store/tables.js'
import { fromServer, temporaryFolder, until } from '../helper.js'

const MAX_BYTES = 8 * 1024 * 1024
const HOUR_MS = 3_600_000

/** A table of numbers of a given size in bytes, whose store is a Map from `project/name` to the stored value. */
function tableOf(stored: Map<string, { version: Position; value: number }>, reads: string[][] = []) {
  const table: StateTable<number> = {
    kind: 'profiles',
    format: (value) => String(value).padStart(value, '0'),
    parse: Number,
    countBytes: (value) => value,
    row: (projectId, name, value) => JSON.stringify({ project_id: projectId, distinct_id: name, value }),
    read: async (projectId, names, maxBytes) => {
      reads.push(names)
      return new Map(
        names.flatMap((name) => {
          const found = stored.get(`${projectId}/${name}`)
          if (!found) return []
          const bytes = found.value
          return [[name, { ...found, bytes, value: bytes > maxBytes ? null : found.value }] as const]
        }),
      )
    },
  }
  return table
}

function limitsOf(): StateLimits {
  return { maxBytes: MAX_BYTES, memory: new ByteBudget(MAX_BYTES), turns: { take: () => null } }
}

/** States over a journal in LMDB with a clock that can be moved. */
async function openStates(t: Test, maxBytes = MAX_BYTES) {
  let now = Date.now()
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes, now: () => now })
  const stored = new Map<string, { version: Position; value: number }>()
  const reads: string[][] = []
  const commits: GroupCommit[] = []
  t.teardown(async () => {
    for (const commit of commits) await commit.close()
    await journal.close()
  })
  /** the states as another process would open them */
  const states = (through: Journal = journal, limits: Partial<StateLimits> = {}) => {
    const commit = new GroupCommit(through, new BufferPool())
    commits.push(commit)
    return new StateStore(through, commit, tableOf(stored, reads), { ...limitsOf(), ...limits })
  }
  /** stores everything, like the writer */
  const store = async () => {
    for (let block = await journal.claim(MAX_BYTES); block; block = await journal.claim(MAX_BYTES)) {
      const settled: { stateKey: string; version: Position }[] = []
      for (const { position, body } of block.entries) {
        for (const { project_id, distinct_id, value } of JSON.parse(`[${body}]`)) {
          if (value === null) stored.delete(`${project_id}/${distinct_id}`)
          else stored.set(`${project_id}/${distinct_id}`, { version: position, value })
          settled.push({ stateKey: toStateKey('profiles', project_id, distinct_id), version: position })
        }
      }
      await journal.acknowledge(block, settled)
    }
  }
  return {
    journal,
    states,
    stored,
    reads,
    store,
    advance: (ms: number) => {
      now += ms
    },
    rows: async () => (await journal.depth()).entries,
  }
}

/** A journal in which something happens once, after the first (or nth) call of a method and before it returns. */
function after(
  journal: Journal,
  call: 'readStates' | 'findRequest',
  happens: () => Promise<unknown>,
  nth = 1,
): Journal {
  let calls = 0
  return new Proxy(journal, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name !== call) return value.bind(target)
      return async (...args: unknown[]) => {
        const answer = await value.apply(target, args)
        if (++calls === nth) await happens()
        return answer
      }
    },
  })
}

const add = (n: number) => (value: number | null) => (value ?? 0) + n
const request = (key: string, fingerprint = 'f'): IdempotencyKey => ({
  key: digest(key),
  fingerprint: digest(fingerprint),
})
const digest = (text: string) => createHash('sha256').update(text).digest('hex')
const all = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i))

t.test('a change is visible once it resolves', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  t.equal(await one.get('p', 'a'), null)
  await one.change('p', 'a', (value) => {
    t.equal(value, null)
    return 7
  })
  t.equal(await one.get('p', 'a'), 7)
  t.equal(await states().get('p', 'a'), 7, 'for others, too')
  t.equal(await one.get('p', 'b'), null)
  t.equal(await one.get('other', 'a'), null, 'a project has its own')
})

t.test('waiting changes are committed as one batch, in the order of their calls', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  const seen: (number | null)[] = []
  await Promise.all(
    all(1000, () =>
      one.change('p', 'a', (value) => {
        seen.push(value)
        return (value ?? 0) + 1
      }),
    ),
  )
  t.equal(await one.get('p', 'a'), 1000)
  t.same([...new Set(seen)], [null, ...all(999, (i) => i + 1)], 'each saw the result of the one before')
  t.ok((await rows()) <= 3, 'in few writes')
})

t.test('different values do not wait for each other', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  await Promise.all(all(200, (i) => one.change('p', `v${i}`, () => i)))
  t.equal(await rows(), 1, 'their rows share an entry')
  t.same(
    await Promise.all(all(200, (i) => one.get('p', `v${i}`))),
    all(200, (i) => i),
  )
})

t.test('look-ups of one turn of the event loop are one query to the store', async (t) => {
  const { states, reads } = await openStates(t)
  const one = states()
  await Promise.all(['a', 'b', 'c'].map((name) => one.get('p', name)))
  t.same(reads, [['a', 'b', 'c']])
})

/** Repeats a change that fails because others are always faster, as on a busy machine, or fill the journal. */
async function insist(change: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      return await change()
    } catch (error) {
      if (!['unavailable', 'overloaded'].includes(`${(error as { code?: string }).code}`)) throw error
    }
  }
}

t.test('two processes on one journal add exactly', async (t) => {
  const { states } = await openStates(t)
  const both = [states(), states()] as const
  await Promise.all(all(1000, (i) => insist(() => both[i % 2 === 0 ? 0 : 1].change('p', 'a', add(1)))))
  t.equal(await both[0].get('p', 'a'), 1000)

  // One after the other in each process, so that they conflict again and again.
  await Promise.all(
    both.map(async (one) => {
      for (let i = 0; i < 100; i++) await insist(() => one.change('p', 'b', add(1)))
    }),
  )
  t.equal(await both[1].get('p', 'b'), 200)
})

t.test('a state that has lost its text in the journal is read from the store, and added to exactly', async (t) => {
  const { journal, states, store, reads, stored } = await openStates(t, 160_000)
  const known = { isNew: () => true, note: () => {} }
  const both = [states(journal, { known }), states(journal, { known })] as const
  const names = ['a', 'b', 'c', 'd']
  for (const name of names) await both[0].change('p', name, () => 10_000, { keyClass: 'secret' })
  let isDone = false
  // Two states are larger than the cache, so they lose their text as soon as they are stored, also between a read and a
  // commit.
  const storing = (async () => {
    while (!isDone) {
      await store()
      await nextTurn()
    }
  })()
  const more = async (one: (typeof both)[number], name: string) => {
    for (let i = 0; i < 20; i++) await insist(() => one.change('p', name, add(1), { keyClass: 'secret' }))
  }
  await Promise.all(names.flatMap((name) => both.map((one) => more(one, name)))).finally(() => {
    isDone = true
  })
  await storing
  await store()
  t.ok(reads.length > 0, 'the store was read')
  for (const name of names) t.equal(await both[1].get('p', name), 10_040)

  const keys = names.map((name) => toStateKey('profiles', 'p', name))
  const found = (await journal.readStates(keys, MAX_BYTES)).states
  const cut = names.find((_, i) => found[i]?.state === null)
  t.ok(cut, 'some are cut')
  stored.set(`p/${cut}`, { version: 1n, value: 1 })
  await t.rejects(
    both[0].get('p', `${cut}`),
    { code: 'unavailable' },
    'the previous value in the store is not mistaken for it',
  )
})

t.test('a conflict: the change is retried on the value of the other process', async (t) => {
  const { journal, states, rows } = await openStates(t)
  const other = states()
  await other.change('p', 'a', () => 1)
  const one = states(after(journal, 'readStates', () => other.change('p', 'a', add(10))))
  const seen: (number | null)[] = []
  await one.change('p', 'a', (value) => {
    seen.push(value)
    return (value ?? 0) + 100
  })
  t.same(seen, [1, 11])
  t.equal(await other.get('p', 'a'), 111)
  t.equal(await rows(), 3)
})

t.test('a conflict: the value of the other process decides on a refusal', async (t) => {
  const { journal, states } = await openStates(t)
  const other = states()
  await other.change('p', 'a', () => 1)
  const one = states(after(journal, 'readStates', () => other.change('p', 'a', () => null)))
  const exists = (value: number | null) => {
    if (value === null) throw new ApiError('not_found', 'gone')
    return value + 1
  }
  await t.rejects(one.change('p', 'a', exists), { code: 'not_found' })
  t.equal(await other.get('p', 'a'), null)
})

t.test('a process that was suspended between reading and commit overwrites nothing', async (t) => {
  const { journal, states, store, stored, advance } = await openStates(t)
  const other = states()
  await other.change('p', 'a', () => 1)
  await store()
  advance(HOUR_MS)
  await other.change('p', 'other', () => 1)
  await store() // sweeps
  const suspension = async () => {
    await other.change('p', 'a', add(10))
    await store()
    advance(STATE_MEMORY_MS + 1)
    await other.change('p', 'other', add(1))
    await store() // forgets the 11, which only the store has now
    t.same((await journal.readStates([toStateKey('profiles', 'p', 'a')], MAX_BYTES)).states, [null])
  }
  const one = states(after(journal, 'readStates', suspension))
  await one.change('p', 'a', add(100))
  t.equal(await other.get('p', 'a'), 111)
  t.equal(one.metrics.conflicts, 1)
  await store()
  t.equal(stored.get('p/a')?.value, 111)
})

t.test('changes with a fence are made only while that state is the one that was read', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  const { fence } = await one.read('p', 'other')
  await Promise.all([one.change('p', 'a', add(1), { fence }), one.change('p', 'a', add(1), { fence })])
  t.equal(await one.get('p', 'a'), 2)
  await states().change('p', 'other', add(1))
  const before = await rows()
  const late = [1, 2, 3].map(() => one.change('p', 'a', add(1), { fence }))
  for (const change of late) await t.rejects(change, FencedError)
  await t.rejects(one.change('p', 'a', add(1), { fence: { ...fence, readAt: null } }), FencedError)
  t.equal(await rows(), before)
  const now = (await one.read('p', 'other')).fence
  const changes = [{ fence }, {}, { fence: now }].map((of) => one.change('p', 'a', add(10), of))
  await t.rejects(changes[0] ?? Promise.resolve(), FencedError)
  await Promise.all(changes.slice(1))
  t.equal(await one.get('p', 'a'), 22, 'other changes of the same value are made')
})

t.test('many large values are changed a few at a time', async (t) => {
  const { journal, stored, reads } = await openStates(t, 4 * MAX_BYTES)
  const size = 100_000
  const names = all(20, (i) => `v${i}`)
  for (const name of names) stored.set(`p/${name}`, { version: 5n, value: size })
  const table = tableOf(stored, reads)
  let open = 0
  let most = 0
  const counted: StateTable<number> = {
    ...table,
    read: async (projectId, names, maxBytes) => {
      if (maxBytes > size) most = Math.max(most, ++open)
      return await table.read(projectId, names, maxBytes)
    },
    row: (...args) => {
      open--
      return table.row(...args)
    },
  }
  const commits = new GroupCommit(journal, new BufferPool())
  t.teardown(() => commits.close())
  const states = new StateStore(journal, commits, counted, { ...limitsOf(), memory: new ByteBudget(3 * size) })
  await Promise.all(names.map((name) => states.change('p', name, add(-1))))
  t.ok(most > 0 && most <= 3, `${most} at a time`)
  t.same(await Promise.all(names.map((name) => states.get('p', name))), Array(20).fill(size - 1))
  t.ok(reads.length > 20, 'each is read separately')
  // The same from the journal, and more often than there are values, so everything that was taken must have been
  // returned.
  await Promise.all([...names, ...names].map((name) => states.change('p', name, add(-1))))
  t.equal(await states.get('p', 'v0'), size - 3)
})

t.test('a change that throws rejects only itself', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  const refusal = new ApiError('not_numeric', 'no number')
  const results = await Promise.allSettled(
    all(9, (i) =>
      one.change('p', 'a', (value) => {
        if (i % 3 === 1) throw refusal
        return (value ?? 0) + 1
      }),
    ),
  )
  t.same(
    results.map(({ status }) => status),
    all(9, (i) => (i % 3 === 1 ? 'rejected' : 'fulfilled')),
  )
  t.ok(results.every((result) => result.status === 'fulfilled' || result.reason === refusal))
  t.equal(await one.get('p', 'a'), 6)
})

t.test('if every change throws, nothing is written', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  await t.rejects(
    one.change('p', 'a', () => {
      throw new Error('no')
    }),
    { message: 'no' },
  )
  t.equal(await rows(), 0)
  t.equal(await one.get('p', 'a'), null)
  await one.change('p', 'a', add(1))
  t.equal(await one.get('p', 'a'), 1, 'and the next one succeeds')
})

t.test('the very same value is not written', async (t) => {
  const { states, rows, journal } = await openStates(t)
  const one = states()
  await one.change('p', 'a', () => 5)
  const { appended } = await journal.progress()
  await one.change('p', 'a', (value) => value)
  await one.change('p', 'b', (value) => value)
  t.equal(await rows(), 1)
  t.equal((await journal.progress()).appended, appended)
  // The first takes its turn immediately, the others wait for it.
  await Promise.all([add(1), add(1), add(-1)].map((change) => one.change('p', 'a', change)))
  t.equal(await rows(), 2, 'nor one that a batch leaves unchanged')
  t.equal(await one.get('p', 'b'), null)
})

t.test('null deletes', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  await one.change('p', 'a', () => 5)
  await one.change('p', 'a', () => null)
  t.equal(await one.get('p', 'a'), null)
  t.equal(await states().get('p', 'a'), null)
  await one.change('p', 'a', add(1))
  t.equal(await one.get('p', 'a'), 1, 'it starts from scratch')
  await Promise.all([one.change('p', 'a', () => null), one.change('p', 'a', add(3))])
  t.equal(await one.get('p', 'a'), 3, 'within a batch, too')
})

t.test('a value that has expired in the journal is read from the store', async (t) => {
  const { states, store, stored, journal, advance, reads } = await openStates(t)
  const one = states()
  await one.change('p', 'a', () => 5)
  await one.change('p', 'gone', () => 5)
  await one.change('p', 'gone', () => null)
  await store()
  advance(HOUR_MS)
  await one.change('p', 'other', () => 1)
  await store() // sweeps
  t.same((await journal.readStates([toStateKey('profiles', 'p', 'a')], MAX_BYTES)).states, [null], 'it is forgotten')
  t.equal(stored.get('p/a')?.value, 5)
  reads.length = 0
  t.equal(await one.get('p', 'a'), 5)
  t.equal(await one.get('p', 'gone'), null)
  t.same(reads, [['a'], ['gone']])
  await Promise.all(all(10, () => one.change('p', 'a', add(1))))
  t.equal(await states().get('p', 'a'), 15)
  await one.change('p', 'gone', add(1))
  t.equal(await one.get('p', 'gone'), 1)
  await store()
  t.equal(stored.get('p/a')?.value, 15)
})

t.test('a change with an id is executed once, also among others and by several processes', async (t) => {
  const { states, rows } = await openStates(t)
  const [one, other] = [states(), states()]
  const with1 = (id: string) => one.change('p', 'a', add(1), { insertId: id })
  await Promise.all([with1('i'), with1('i'), one.change('p', 'a', add(10)), with1('j')])
  t.equal(await one.get('p', 'a'), 12)
  await Promise.all([with1('j'), with1('k'), other.change('p', 'a', add(1), { insertId: 'k' }), with1('i')])
  t.equal(await one.get('p', 'a'), 13)
  const before = await rows()
  await Promise.all(all(20, () => with1('k')))
  t.equal(await rows(), before, 'nothing is written')
  await one.change('p', 'b', add(1), { insertId: 'i' })
  t.equal(await one.get('p', 'b'), 1, "another value's id is another id")
})

t.test('a change with an id is refused, or recognised as one that was made', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  const refuse = () => {
    throw new ApiError('not_numeric', 'The property n is not a number.')
  }
  await one.change('p', 'a', add(1), { insertId: 'made' })
  await t.resolves(one.change('p', 'a', refuse, { insertId: 'made' }))
  await t.rejects(one.change('p', 'a', refuse, { insertId: 'new' }), { code: 'not_numeric' })
  await one.change('p', 'a', add(1), { insertId: 'new' })
  t.equal(await one.get('p', 'a'), 2, 'a refused one is not remembered')
})

t.test('a keyed change is executed once', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  for (let i = 0; i < 3; i++) await one.change('p', 'a', add(1), { idempotencyKey: request('k') })
  t.equal(await one.get('p', 'a'), 1)
  t.equal(await rows(), 1)
  await Promise.all(all(20, () => one.change('p', 'a', add(10), { idempotencyKey: request('k2') })))
  t.equal(await one.get('p', 'a'), 11)
  await t.rejects(one.change('p', 'a', add(1), { idempotencyKey: request('k', 'another body') }), {
    code: 'idempotency_conflict',
  })
  await t.rejects(one.change('p', 'b', add(1), { idempotencyKey: request('k', 'another body') }), {
    code: 'idempotency_conflict',
  })
  t.equal(await one.get('p', 'a'), 11)
})

t.test('a keyed change that was refused may be retried', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  const refuse = () => {
    throw new ApiError('not_numeric', 'no number')
  }
  await t.rejects(one.change('p', 'a', refuse, { idempotencyKey: request('k') }), { code: 'not_numeric' })
  await one.change('p', 'a', add(1), { idempotencyKey: request('k') })
  t.equal(await one.get('p', 'a'), 1)
})

t.test('each keyed change is a separate batch', async (t) => {
  const { states, rows } = await openStates(t)
  const one = states()
  const order: string[] = []
  const note = (name: string) => (value: number | null) => {
    order.push(name)
    return (value ?? 0) + 1
  }
  await Promise.all([
    one.change('p', 'a', note('1')),
    one.change('p', 'a', note('2')),
    one.change('p', 'a', note('k'), { idempotencyKey: request('k') }),
    one.change('p', 'a', note('3')),
    one.change('p', 'a', note('again'), { idempotencyKey: request('k') }),
    one.change('p', 'a', note('4')),
    one.change('p', 'a', note('5')),
  ])
  t.same(order, ['1', '2', 'k', '3', '4', '5'], 'the repeated one is not even tried')
  t.equal(await one.get('p', 'a'), 6)
  t.equal(await rows(), 5, 'the batches are 1 (immediately), 2, k, 3, 4 and 5')
})

t.test('a keyed change by two processes counts once', async (t) => {
  const { states } = await openStates(t)
  const both = [states(), states()] as const
  for (let round = 0; round < 20; round++) {
    const key = request(`k${round}`)
    await Promise.all(
      all(6, (i) => both[i % 2 === 0 ? 0 : 1].change('p', `v${round}`, add(1), { idempotencyKey: key })),
    )
    t.equal(await both[0].get('p', `v${round}`), 1)
  }
})

t.test('a keyed change that another process executes meanwhile succeeds', async (t) => {
  const { journal, states } = await openStates(t)
  // A change that fails the second time.
  const once = (value: number | null) => {
    if (value !== null) throw new ApiError('not_numeric', 'made already')
    return 1
  }
  const other = states()
  // After this process saw that the request is new, and before it reads the value, the other process executes it.
  const meanwhile = after(journal, 'findRequest', () => other.change('p', 'a', once, { idempotencyKey: request('k') }))
  await t.resolves(states(meanwhile).change('p', 'a', once, { idempotencyKey: request('k') }))
  t.equal(await other.get('p', 'a'), 1)

  const differs = after(journal, 'findRequest', () => other.change('p', 'b', once, { idempotencyKey: request('k2') }))
  await t.rejects(states(differs).change('p', 'b', once, { idempotencyKey: request('k2', 'another body') }), {
    code: 'idempotency_conflict',
  })
})

t.test('a full journal refuses the waiting changes', async (t) => {
  const { journal, states, store } = await openStates(t)
  const one = states()
  const big = Buffer.alloc(MAX_BYTES + 1)
  await journal.write([{ type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: big, ids: NO_IDS }])
  const results = await Promise.allSettled(all(5, () => one.change('p', 'a', add(1))))
  t.ok(results.every((result) => result.status === 'rejected' && result.reason.code === 'overloaded'))
  t.equal(await one.get('p', 'a'), null, 'and nothing was done')
  const block = await journal.claim(MAX_BYTES)
  if (block) await journal.acknowledge(block, [])
  await one.change('p', 'a', add(1))
  t.equal(await one.get('p', 'a'), 1)
  await store()
})

t.test('a change fails while the store is unavailable, and the next one reads the store again', async (t) => {
  const { journal, reads } = await openStates(t)
  const commits = new GroupCommit(journal, new BufferPool())
  t.teardown(() => commits.close())
  let isAway = true
  const table = tableOf(new Map(), reads)
  const away: StateTable<number> = {
    ...table,
    read: async (...args) => {
      if (isAway) throw new Error('away')
      return await table.read(...args)
    },
  }
  const states = new StateStore(journal, commits, away, limitsOf())
  const results = await Promise.allSettled([
    states.get('p', 'a'),
    states.change('p', 'a', add(1)),
    states.change('p', 'a', add(1), { idempotencyKey: request('k') }),
  ])
  t.ok(results.every((result) => result.status === 'rejected' && result.reason.message === 'away'))
  isAway = false
  await states.change('p', 'a', add(1), { idempotencyKey: request('k') })
  t.equal(await states.get('p', 'a'), 1)
})

t.test('a change that arrives while a batch is in flight is in the next one', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  const first = one.change('p', 'a', add(1))
  await nextTurn()
  const later = all(10, () => one.change('p', 'a', add(1)))
  await Promise.all([first, ...later])
  t.equal(await one.get('p', 'a'), 11)
})

t.test('a value may not grow over the limit, and one that is over it may shrink', async (t) => {
  const { journal, states } = await openStates(t)
  const unlimited = states()
  const limited = states(journal, { maxBytes: 99 })
  const set = (value: number) => () => value
  const tooLarge = { code: 'payload_too_large', message: /over 99 bytes/ }
  await limited.change('p', 'a', set(99))
  await t.rejects(limited.change('p', 'a', add(1)), tooLarge)
  t.equal(await limited.get('p', 'a'), 99)
  const together = [add(-1), set(1000), add(-1)].map((change) => limited.change('p', 'a', change))
  const statuses = (await Promise.allSettled(together)).map(({ status }) => status)
  t.strictSame(statuses, ['fulfilled', 'rejected', 'fulfilled'])
  t.equal(await limited.get('p', 'a'), 97)

  await unlimited.change('p', 'old', set(10_000))
  await t.rejects(limited.change('p', 'old', set(100_000)), tooLarge)
  await limited.change('p', 'old', set(1000))
  t.equal(await limited.get('p', 'old'), 1000)
})

t.test('changes that are executed one by one fail one by one', async (t) => {
  const { journal, states } = await openStates(t)
  const fill = () =>
    journal.write([
      { type: 'append', ...fromServer('other'), count: 1, body: Buffer.alloc(MAX_BYTES + 1), ids: NO_IDS },
    ])
  // The value is read for the first change, for the others together, and then for each of them. The fifth read is for
  // the one after the change that is too large.
  const limited = states(after(journal, 'readStates', fill, 5), { maxBytes: 99 })
  const changes = [add(1), add(10), () => 1000, add(2), add(2)]
  const results = await Promise.allSettled(changes.map((change) => limited.change('p', 'a', change)))
  t.strictSame(
    results.map((result) => (result.status === 'fulfilled' ? 'done' : result.reason.code)),
    ['done', 'done', 'payload_too_large', 'overloaded', 'overloaded'],
  )
  t.equal(await limited.get('p', 'a'), 11, 'resolved changes are stored, and no others')
})

t.test('changes of different values run in successive turns', async (t) => {
  const { states } = await openStates(t)
  const turns: { owner: string; begin: () => void }[] = []
  const one = states(undefined, {
    turns: { take: (findOwner) => new Promise((begin) => turns.push({ owner: findOwner(), begin })) },
  })
  const ran: string[] = []
  const names = ['a', 'b', 'c']
  const changed = Promise.all(
    names.map((name) =>
      one.change('p', name, () => {
        ran.push(name)
        return 1
      }),
    ),
  )
  for (const [i, name] of names.entries()) {
    await until('the next turn', () => turns.length === names.length - i)
    t.equal(ran.length, i, `${name} waits`)
    const [next] = turns.splice(0, 1)
    t.equal(next?.owner, 'p')
    next?.begin()
    await until('the change', () => ran.length === i + 1)
  }
  await changed
  t.same(ran, names)
})

t.test('slow changes do not block the event loop together', async (t) => {
  const { states } = await openStates(t)
  const one = states()
  let most = 0
  let inTurn = 0
  /** blocks the event loop for 8 ms */
  const slow = (value: number | null) => {
    const now = performance.now()
    if (inTurn++ === 0) {
      setImmediate(() => {
        inTurn = 0
      })
    }
    while (performance.now() < now + 8);
    most = Math.max(most, inTurn)
    return (value ?? 0) + 1
  }
  await Promise.all(all(20, () => one.change('p', 'a', slow)))
  t.equal(await one.get('p', 'a'), 20)
  t.ok(most < 10, `${most} of 20 in one turn`)
})

t.test('the key of a state distinguishes kinds, projects and names', async (t) => {
  const keys = [
    toStateKey('profiles', 'p', 'n'),
    toStateKey('sessions', 'p', 'n'),
    toStateKey('profiles', 'p', 'n"'),
    toStateKey('profiles', 'pn', ''),
    toStateKey('profiles', '', 'pn'),
    toStateKey('profiles', 'p","n', ''),
  ]
  t.equal(new Set(keys).size, keys.length)
  t.ok(keys.every((key) => /^[0-9a-f]{64}$/.test(key)))
})
