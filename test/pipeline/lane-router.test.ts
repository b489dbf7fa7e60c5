import t from 'tap'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import type { Lane } from '../../src/pipeline/lane.js'
import { LaneRouter } from '../../src/pipeline/lane-router.js'

const MIB = 1024 * 1024

/** Lanes that take everything, and count it. */
function threeLanes() {
  const taken = [0, 0, 0]
  const states = taken.map(() => ({ queuedBytes: 0, refusedAt: Number.NEGATIVE_INFINITY, isUp: true }))
  const lanes = states.map((state, number) => ({
    number,
    journal: state,
    commits: Object.assign(state, {
      appendBatch: async (_projectId: string, body: Buffer) => {
        taken[number] = (taken[number] ?? 0) + 1
        state.queuedBytes += body.length
      },
    }),
  }))
  const router = new LaneRouter(lanes as unknown as Lane[], 1, new BufferPool())
  const append = (bytes: number) => router.appendBatch('default', Buffer.alloc(bytes), 1)
  return { taken, states, append }
}

t.test('the home lane takes what several clients send at once, as its bodies need not be read again', async (t) => {
  const { taken, append } = threeLanes()
  for (let i = 0; i < 10; i++) await append(200_000)
  t.same(taken, [0, 10, 0])
})

t.test(
  'a lane that falls behind, is down or has refused a write leaves events to the least busy other one',
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
