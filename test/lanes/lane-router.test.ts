import t from 'tap'
import { ApiError } from '../../src/contract/errors.js'
import type { Submission } from '../../src/ingest/group-commit.js'
import type { Lane } from '../../src/lanes/lane.js'
import { LaneRouter } from '../../src/lanes/lane-router.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { digestIds } from '../../src/model/identified-events.js'
import { makeRequestIds, NO_IDS, type RequestIds } from '../../src/model/request-ids.js'
import { fromServer } from '../helper.js'
import { batchFrom } from '../submissions.js'

const MIB = 1024 * 1024

/** Lanes that accept and count everything. */
function threeLanes() {
  const taken = [0, 0, 0]
  const states = taken.map(() => ({ queuedBytes: 0, refusedAt: Number.NEGATIVE_INFINITY, isUp: true }))
  const lanes = states.map((state, number) => ({
    number,
    journal: state,
    commits: Object.assign(state, {
      append: async ({ body }: Submission) => {
        taken[number] = (taken[number] ?? 0) + 1
        state.queuedBytes += body.length
      },
    }),
  }))
  const router = new LaneRouter(lanes as unknown as Lane[], 1, new BufferPool())
  const append = (bytes: number) => router.append(batchFrom(fromServer('default'), Buffer.alloc(bytes), 1), NO_IDS)
  return { taken, states, append }
}

t.test(
  'the home lane takes what several clients send together, because its bodies need not be read again',
  async (t) => {
    const { taken, append } = threeLanes()
    for (let i = 0; i < 10; i++) await append(200_000)
    t.same(taken, [0, 10, 0])
  },
)

t.test(
  'LaneRouter gives the events of a lane that lags, is down or refused a write to the least busy other one',
  async (t) => {
    const { taken, states, append } = threeLanes()
    const [first, home, last] = states as [(typeof states)[0], (typeof states)[0], (typeof states)[0]]
    home.queuedBytes = 5 * MIB
    first.queuedBytes = 2 * MIB
    await append(1)
    t.same(taken, [0, 0, 1], 'behind')
    Object.assign(home, { queuedBytes: 0, isUp: false })
    last.queuedBytes = 3 * MIB
    await append(1)
    t.same(taken, [1, 0, 1], 'down')
    Object.assign(home, { isUp: true, refusedAt: performance.now() })
    last.refusedAt = performance.now()
    await append(1)
    t.same(taken, [2, 0, 1], 'refused')
    home.refusedAt = performance.now() - 1_001
    await append(1)
    t.same(taken, [2, 1, 1], 'a second later it is home again')
  },
)

type Settled = 'stored' | 'refused' | 'in doubt'

/**
 * The error message of a batch with ids.
 * @param outcomes of its part in each lane
 * @param plain the outcome of its events without ids
 */
async function failureOf(outcomes: [Settled, Settled, Settled], plain: Settled | null = null): Promise<string> {
  const settle = async (outcome: Settled | null | undefined) => {
    if (outcome === 'refused') throw new ApiError('unavailable', 'The journal is down. Nothing was stored.')
    if (outcome === 'in doubt') throw new ApiError('internal', 'The journal did not say.')
  }
  const lanes = outcomes.map((outcome, number) => ({
    number,
    journal: { isUp: true },
    commits: {
      queuedBytes: 0,
      refusedAt: Number.NEGATIVE_INFINITY,
      append: (_submission: Submission, ids: RequestIds) => settle(ids.kind === 'events' ? outcome : plain),
    },
  }))
  const users = Array.from({ length: 50 }, (_, i) => `u${i}`)
  const events = users.map((distinct_id) => ({ event: 'e', distinct_id, insert_id: 'i' as string | null }))
  if (plain) events.push({ event: 'e', distinct_id: 'u', insert_id: null })
  const router = new LaneRouter(lanes as unknown as Lane[], 0, new BufferPool())
  const ids = makeRequestIds(null, digestIds('p', events))
  return await router
    .append(batchFrom(fromServer('p'), Buffer.from(JSON.stringify({ events })), events.length), ids)
    .then(
      () => 'none',
      (error: Error) => error.message,
    )
}

t.test('a refused batch says which part of it is stored', async (t) => {
  const again = 'Send the whole batch again: events with an insert_id are not stored twice.'
  const [refused, stored, inDoubt] = ['refused', 'stored', 'in doubt'] as const
  t.equal(await failureOf([refused, refused, refused]), 'The journal is down. Nothing was stored.')
  t.equal(await failureOf([refused, refused, stored]), `The journal is down. A part of the batch is stored. ${again}`)
  const mayBe = `The journal is down. A part of the batch may be stored. ${again}`
  t.equal(await failureOf([refused, refused, inDoubt]), mayBe)
  t.equal(await failureOf([inDoubt, refused, refused]), mayBe)
  t.equal(await failureOf([inDoubt, inDoubt, inDoubt]), 'The journal did not say.')
  const isStored = `The journal is down. A part of the batch is stored. ${again}`
  t.equal(await failureOf([stored, stored, stored], refused), isStored, 'those without ids are last')
  t.equal(await failureOf([stored, stored, stored], inDoubt), 'The journal did not say.')
})
