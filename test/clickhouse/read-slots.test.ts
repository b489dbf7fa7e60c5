import t from 'tap'
import { NoSlotError } from '../../src/clickhouse/errors.js'
import { ReadSlots } from '../../src/clickhouse/read-slots.js'

const LIMITS = { slots: 4, perProject: 3, waitMs: 60_000, stalledMs: 0 }
const NEVER_CUT = { ...LIMITS, stalledMs: 60_000 }

t.test('ReadSlots leaves slots for other projects, and serves waiting reads in order', async (t) => {
  const slots = new ReadSlots(NEVER_CUT)
  const first = await Promise.all(['a', 'a', 'a', 'b'].map((project) => slots.take(project)))
  const order: string[] = []
  const wait = (name: string) =>
    slots.take(name.charAt(0)).then((slot) => {
      order.push(name)
      return slot
    })
  const waiting = ['a1', 'a2', 'b1', 'c1'].map(wait)
  first[3]?.release()
  const ofB = await waiting[2]
  t.strictSame(order, ['b1'], 'not those whose project has its share')
  first[3]?.release()
  t.strictSame(order, ['b1'], 'a slot is released once')
  first[0]?.release()
  await waiting[0]
  t.strictSame(order, ['b1', 'a1'])
  ofB?.release()
  await waiting[3]
  first[1]?.release()
  await waiting[1]
  t.strictSame(order, ['b1', 'a1', 'c1', 'a2'])
})

t.test('ReadSlots refuses a read that waits too long, and gives no slot to one that has given up', async (t) => {
  const slots = new ReadSlots({ ...NEVER_CUT, waitMs: 20 })
  const held = await Promise.all(['a', 'a', 'b', 'b'].map((project) => slots.take(project)))
  await t.rejects(slots.take('c'), NoSlotError)
  const hangUp = new AbortController()
  const gone = slots.take('c', hangUp.signal)
  hangUp.abort()
  await t.rejects(gone, NoSlotError)
  await t.rejects(slots.take('c', AbortSignal.abort()), NoSlotError)
  held[0]?.release()
  t.ok(await slots.take('c'))
})

t.test('ReadSlots takes a needed slot from the result that has stalled the longest', async (t) => {
  const slots = new ReadSlots(LIMITS)
  const cut: number[] = []
  const held = await Promise.all(['a', 'a', 'a', 'b'].map((project) => slots.take(project)))
  for (const [n, slot] of held.entries()) {
    slot.onCutOff(() => {
      cut.push(n)
      slot.release()
    })
  }
  const now = performance.now()
  held[1]?.stalled(now - 1000)
  held[2]?.stalled(now - 2000)
  held[3]?.stalled(now - 3000)
  await slots.take('a')
  t.strictSame(cut, [2], 'of its own project if that has its share')
  await slots.take('c')
  t.strictSame(cut, [2, 3], 'else of any')
  held[1]?.stalled(null)
  const last = slots.take('c')
  t.strictSame(cut, [2, 3], 'and none that is being read')
  held[0]?.release()
  t.ok(await last)
})

t.test('ReadSlots keeps a slot in use until its abandoned queries have ended', async (t) => {
  const slots = new ReadSlots({ ...NEVER_CUT, slots: 1, perProject: 1 })
  const slot = await slots.take('a')
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  slot.holdUntil(Promise.reject(new Error('unknown')))
  slot.holdUntil(ended)
  slot.release()
  let isFree = false
  const next = slots.take('b').then(() => {
    isFree = true
  })
  await new Promise(setImmediate)
  t.equal(isFree, false)
  end()
  await next
})

t.test('ReadSlots can temporarily allow a project fewer slots', async (t) => {
  let ofA = 2
  const slots = new ReadSlots(NEVER_CUT, (project) => (project === 'a' ? ofA : 1))
  const first = await slots.take('a')
  const second = await slots.take('a')
  ofA = 1
  let isGranted = false
  const waiting = slots.take('a').then((slot) => {
    isGranted = true
    return slot
  })
  await slots.take('b')
  second.release()
  await new Promise(setImmediate)
  t.notOk(isGranted, 'it still has one')
  first.release()
  t.ok(await waiting)
})
