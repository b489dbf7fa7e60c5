import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Journal } from '../../../src/journal/journal.js'
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.js'
import type { Position } from '../../../src/model/position.js'
import { NO_IDS } from '../../../src/model/request-ids.js'
import { temporaryFolder } from '../../helper.js'

const ALL = 1e9

/** A journal whose entries are not in memory, as after a restart, and the positions of the entries. */
async function backlog({
  path,
  count,
  bytes,
  segmentBytes,
}: {
  path: string
  count: number
  bytes: number
  segmentBytes: number
}): Promise<{ journal: Journal; positions: Position[] }> {
  const options = { path, maxBytes: ALL, segmentBytes, memoryBytes: 1 }
  let journal = await openLmdbJournal(options)
  const positions: Position[] = []
  for (let i = 0; i < count; i++) {
    const [outcome] = await journal.write([
      { type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.alloc(bytes, 'x'), ids: NO_IDS },
    ])
    if (outcome?.status === 'done') positions.push(outcome.position)
  }
  await journal.close()
  journal = await openLmdbJournal(options)
  return { journal, positions }
}

t.test('a reader is never told that an entry is stored before it is acknowledged', async (t) => {
  const path = await temporaryFolder(t)
  const { journal, positions } = await backlog({ path, count: 100, bytes: 20_000, segmentBytes: 100_000 })
  t.teardown(() => journal.close())
  let isOver = false
  let waiting = positions[0]
  let calls = 0
  let wrong = 0
  const read = async () => {
    while (!isOver) {
      const { stored } = await journal.level(positions.at(-1) ?? 0n)
      calls++
      if (waiting !== undefined && stored >= waiting) wrong++
    }
  }
  const readers = Array.from({ length: 4 }, read)
  for (let block = await journal.claim(1); block; block = await journal.claim(1)) {
    const { last } = block
    waiting = positions.find((position) => position > last)
    await journal.acknowledge(block, [])
  }
  isOver = true
  await Promise.all(readers)
  t.equal(wrong, 0, `of ${calls}`)
})

const bytesRead = async () => Number(/rchar: (\d+)/.exec(await readFile('/proc/self/io', 'utf8'))?.[1])
const noProc = process.platform !== 'linux' && 'needs /proc'

t.test('only the requested part of a backlog on disk is read', { skip: noProc }, async (t) => {
  const path = await temporaryFolder(t)
  const { journal, positions } = await backlog({ path, count: 60, bytes: 100_000, segmentBytes: ALL })
  t.teardown(() => journal.close())
  const measured = async (work: () => Promise<unknown>) => {
    const before = await bytesRead()
    await work()
    return (await bytesRead()) - before
  }
  const depths = await measured(() => Promise.all(Array.from({ length: 60 }, () => journal.depth())))
  t.ok(depths < 1_000_000, `${depths} bytes by 60 readers`)
  let claimed = 0
  const claims = await measured(async () => {
    for (let block = await journal.claim(200_000); block; block = await journal.claim(200_000)) {
      claimed += block.entries.length
      await journal.acknowledge(block, [])
    }
  })
  t.equal(claimed, positions.length)
  t.ok(claims < 60_000_000, `${claims} bytes by claims of all`)
})
