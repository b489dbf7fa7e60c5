import t from 'tap'
import { ProjectPace } from '../../src/ingest/project-pace.js'

const MIB = 1024 * 1024
const BULK = 200 * 1024

function paceAt() {
  const time = { ms: 0 }
  return { time, pace: new ProjectPace(() => time.ms) }
}

const writeFrom = (projectId: string, bytes: number) => ({ bytes, write: { projectId } })
const bulks = (projectId: string, count: number) => Array.from({ length: count }, () => writeFrom(projectId, BULK))
const names = (taken: { write: { projectId: string } }[]) => taken.map(({ write }) => write.projectId).join('')

t.test('a project that is alone gets everything that fits, in order', async (t) => {
  const { pace } = paceAt()
  for (let i = 0; i < 3; i++) pace.note('a')
  const queue = [...bulks('a', 10), writeFrom('a', 10), ...bulks('a', 10)]
  const all = [...queue]
  t.strictSame(pace.take(queue, 2 * MIB), all.slice(0, 12), 'the last one exceeds the room')
  pace.noteWritten(all.slice(0, 12), 20)
  t.equal(pace.take(queue, 1).length, 1, 'at least one, and without a pause')
  t.equal(queue.length, 8)
})

t.test('while others send, bulk comes after small writes, in portions followed by pauses', async (t) => {
  const { pace, time } = paceAt()
  pace.note('a')
  pace.note('b')
  const queue = [...bulks('a', 8), writeFrom('b', 10), writeFrom('a', 10)]
  const first = pace.take(queue, 2 * MIB)
  t.equal(names(first), 'baa')
  time.ms = 5
  pace.noteWritten(first, 5)
  t.strictSame(pace.take(queue, 2 * MIB), [])
  t.equal(pace.waitFor(queue), 10, 'twice as long as the write took')
  queue.push(writeFrom('b', 10))
  t.equal(names(pace.take(queue, 2 * MIB)), 'b', 'small writes do not wait')
  queue.push(...bulks('b', 1))
  t.equal(pace.waitFor(queue), 0)
  t.equal(names(pace.take(queue, 2 * MIB)), 'b', 'nor does the bulk of another project')
  time.ms = 15
  t.equal(names(pace.take(queue, 2 * MIB)), 'a')
  t.equal(queue.length, 6)
})

t.test('projects that send bulk take turns', async (t) => {
  const { pace } = paceAt()
  for (const project of ['a', 'b', 'c']) pace.note(project)
  const queue = [...bulks('a', 4), ...bulks('b', 1), ...bulks('c', 1)]
  const order: string[] = []
  for (let i = 0; i < 3; i++) {
    const taken = pace.take(queue, 2 * MIB)
    order.push(names(taken))
    pace.noteWritten(taken, 1)
  }
  t.strictSame(order, ['a', 'b', 'c'])
})

t.test('a write is never smaller than one entry, and a pause is short', async (t) => {
  const { pace, time } = paceAt()
  pace.note('a')
  pace.note('b')
  const large = writeFrom('a', 20 * MIB)
  t.equal(pace.take([large], 2 * MIB).length, 1)
  t.equal(pace.take([writeFrom('b', 10)], -5).length, 1, 'although single events have filled the write')
  pace.noteWritten([large], 3_000)
  t.strictSame(pace.take([large], 2 * MIB), [])
  t.equal(pace.waitFor([large]), 200, 'and not as long as a journal that hung')
  time.ms = 200
  t.equal(pace.take([large], 2 * MIB).length, 1)
})

t.test('small writes leave bulk its portion, however many there are', async (t) => {
  const { pace } = paceAt()
  pace.note('a')
  pace.note('b')
  const queue = [...Array.from({ length: 300 }, () => writeFrom('a', 15_000)), ...bulks('b', 1)]
  t.match(names(pace.take(queue, 2 * MIB)), /^a{140}b$/)
  t.equal(queue.length, 160)
})

t.test('batches of a project that sends little go together, without a pause', async (t) => {
  const { pace } = paceAt()
  pace.note('a')
  pace.note('b')
  const queue = [...Array.from({ length: 6 }, () => writeFrom('a', 20_000)), writeFrom('b', 10)]
  const taken = pace.take(queue, 2 * MIB)
  t.equal(names(taken), 'baaaaaa')
  pace.noteWritten(taken, 20)
  t.equal(pace.take([writeFrom('a', 20_000)], 2 * MIB).length, 1)
})
