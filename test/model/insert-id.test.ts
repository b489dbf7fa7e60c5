import t from 'tap'
import { findInsertIdLane, INSERT_ID_BYTES, writeInsertId } from '../../src/model/insert-id.js'

const digestOf = (projectId: string, distinctId: string, insertId: string) => {
  const digest = Buffer.alloc(INSERT_ID_BYTES)
  writeInsertId(digest, 0, { projectId, distinctId, insertId })
  return digest
}

t.test('findInsertIdLane returns one lane for a user, and spreads users over the lanes', async (t) => {
  for (const lanes of [2, 3, 8]) {
    const counts = Array<number>(lanes).fill(0)
    for (let user = 0; user < 10_000; user++) {
      const lane = findInsertIdLane(digestOf('p', `user-${user}`, 'a'), 0, lanes)
      if (user < 100) t.equal(findInsertIdLane(digestOf('p', `user-${user}`, 'b'), 0, lanes), lane)
      counts[lane] = (counts[lane] ?? 0) + 1
    }
    for (const count of counts) t.ok(Math.abs(count - 10_000 / lanes) < 500 / Math.sqrt(lanes), `${counts}`)
  }
})

t.test('ids of daily visitors do not depend on their names, and are spread over the lanes', async (t) => {
  t.strictSame(digestOf('p', '$visitor:a', 'i'), digestOf('p', '$visitor:b', 'i'))
  const lanes = new Set<number>()
  for (let i = 0; i < 100; i++) lanes.add(findInsertIdLane(digestOf('p', '$visitor:a', `i${i}`), 0, 3))
  t.equal(lanes.size, 3)
})

t.test('writeInsertId separates project, user and id', async (t) => {
  const digests = [
    digestOf('p', 'u', 'i'),
    digestOf('q', 'u', 'i'),
    digestOf('p', 'v', 'i'),
    digestOf('p', 'u', 'j'),
    digestOf('pu', '', 'i'),
    digestOf('', 'pu', 'i'),
    digestOf('p', '', 'ui'),
    digestOf('p', 'ui', ''),
  ]
  t.equal(new Set(digests.map((digest) => digest.toString('hex'))).size, digests.length)
})
