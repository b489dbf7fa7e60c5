import assert from 'node:assert/strict'
import { appendFile, cp, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { WaitingEntry } from '../../../src/journal/journal.js'
import { EntryLog, readEntryLog } from '../../../src/journal/lmdb/entry-log.js'
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.js'
import { type Position, START } from '../../../src/model/position.js'
import { randomName, temporaryFolder } from '../../helper.js'
import { ALL, append } from '../writes.js'

const SEGMENT_BYTES = 400
const RUNS = 12
/** A power cut may leave any pages of a write on disk, but no part of a page. Much smaller here than on a disk. */
const PAGE_BYTES = 64
const folder = await temporaryFolder(t)

const entry = (position: Position, body: Uint8Array): WaitingEntry => ({
  position,
  kind: 'events',
  projectId: 'p',
  count: 1,
  receivedAt: Number(position),
  body: Buffer.from(body),
  shares: [{ holder: 'secret:p', bytes: body.length }],
})

async function newFolder(): Promise<string> {
  const path = join(folder, randomName('log'))
  await cp(await temporaryFolder(t), path, { recursive: true })
  return path
}

async function collect(found: AsyncIterable<WaitingEntry[]>): Promise<WaitingEntry[]> {
  const all: WaitingEntry[] = []
  for await (const entries of found) all.push(...entries)
  return all
}

/** The log as a process that starts after a crash finds it. */
async function recovered(path: string, stored: Position, applied = START): Promise<WaitingEntry[]> {
  const log = await EntryLog.open({ path, stored, applied, segmentBytes: SEGMENT_BYTES })
  const entries = await collect(log.read(stored))
  await log.close()
  const seen = await collect(readEntryLog(path, applied))
  assert.deepEqual(
    seen.filter(({ position }) => position > stored),
    entries,
    'another process sees the same',
  )
  return entries
}

const body = fc.uint8Array({ minLength: 1, maxLength: 120 })
const step = fc.oneof(
  fc.record({ type: fc.constant('append' as const), bodies: fc.array(body, { minLength: 1, maxLength: 4 }) }),
  fc.record({ type: fc.constant('forget' as const), count: fc.nat(6) }),
  fc.record({ type: fc.constant('undo' as const), bodies: fc.array(body, { minLength: 1, maxLength: 2 }) }),
  fc.record({ type: fc.constant('reopen' as const) }),
)

t.test(
  'EntryLog has all entries that were appended and not forgotten, whichever pages of the last write reached the disk',
  async (t) => {
    const property = fc.asyncProperty(
      fc.array(step, { maxLength: 30 }),
      fc.array(body, { minLength: 1, maxLength: 3 }),
      fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
      async (steps, lastBodies, isWritten) => {
        const path = await newFolder()
        let position = 0n
        let stored = START
        let expected: WaitingEntry[] = []
        const make = (bodies: Uint8Array[]) => bodies.map((body) => entry(++position, body))
        const start = () => EntryLog.open({ path, stored, applied: START, segmentBytes: SEGMENT_BYTES })
        let log = await start()
        for (const step of steps) {
          if (step.type === 'append') {
            const entries = make(step.bodies)
            await log.append(entries, false)
            expected.push(...entries)
          } else if (step.type === 'undo') {
            await log.append(make(step.bodies), true)
            await log.undo()
          } else if (step.type === 'forget') {
            stored = expected[Math.min(step.count, expected.length) - 1]?.position ?? stored
            expected = expected.slice(step.count)
            await log.forget(stored)
          } else {
            await log.close()
            log = await start()
          }
          assert.deepEqual(await collect(log.read(stored)), expected)
        }
        const before = await filesOf(path)
        const last = make(lastBodies)
        await log.append(last, false)
        await log.close()
        assert.deepEqual(await recovered(path, stored), [...expected, ...last])
        // A write that is interrupted anywhere either happened completely or not at all.
        await loseWrites(path, before, (page) => isWritten[page % isWritten.length] ?? false)
        const found = await recovered(path, stored)
        assert.deepEqual(found, found.length > expected.length ? [...expected, ...last] : expected)
      },
    )
    await fc.assert(property, { numRuns: RUNS })
    t.pass(`${RUNS} runs`)
  },
)

async function filesOf(path: string): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>()
  for (const name of await readdir(path)) files.set(name, await readFile(join(path, name)))
  return files
}

/** Makes the files what they are if only some pages reached the disk since `before`. */
async function loseWrites(
  path: string,
  before: Map<string, Buffer>,
  isWritten: (page: number) => boolean,
): Promise<void> {
  for (const [name, bytes] of await filesOf(path)) {
    const old = before.get(name) ?? Buffer.alloc(0)
    if (bytes.equals(old)) continue
    for (let at = 0; at < bytes.length; at += PAGE_BYTES) {
      if (isWritten(at / PAGE_BYTES)) continue
      const page = bytes.subarray(at, at + PAGE_BYTES)
      page.fill(0)
      page.set(old.subarray(at, at + page.length))
    }
    await writeFile(join(path, name), bytes)
  }
}

t.test('a file that was being reused during a power cut is not damaged', async (t) => {
  const path = await newFolder()
  const old = [1n, 2n, 3n, 4n, 5n].map((position) => entry(position, Buffer.alloc(100)))
  const next = entry(6n, Buffer.alloc(100))
  let log = await EntryLog.open({ path, stored: START, applied: START, segmentBytes: 4096 })
  for (const one of old) await log.append([one], false)
  await log.close()
  // Now each record begins another file.
  log = await EntryLog.open({ path, stored: START, applied: START, segmentBytes: 1 })
  await log.append([next], false)
  await log.forget(5n)
  const before = await filesOf(path)
  await log.append([entry(7n, Buffer.alloc(100))], false)
  t.equal((await readdir(path)).length, before.size, 'the file of the old entries is used again')
  await log.close()
  await loseWrites(path, before, (page) => page > 0)
  t.same(await recovered(path, 5n), [next])
  await t.rejects(recovered(path, START), /is damaged/, 'entries that are still needed are missed')
})

for (const segmentBytes of [1, SEGMENT_BYTES]) {
  t.test(
    `a conditional record counts once LMDB has the rest, and never later: files of ${segmentBytes} bytes`,
    async (t) => {
      const path = await newFolder()
      const start = (applied: Position) => EntryLog.open({ path, stored: START, applied, segmentBytes })
      const [one, two, three, four] = [1n, 2n, 3n, 4n].map((position) => entry(position, Buffer.from('x'))) as [
        WaitingEntry,
        WaitingEntry,
        WaitingEntry,
        WaitingEntry,
      ]
      let log = await start(START)
      await log.append([one], false)
      await log.append([two], true)
      await log.close()
      t.same(await recovered(path, START, 2n), [one, two])
      t.same(await recovered(path, START, 1n), [one])
      log = await start(1n)
      await log.append([three], true)
      await log.close()
      t.same(await recovered(path, START, 3n), [one, three], 'the one that did not count is gone')
      log = await start(3n)
      await log.append([four], true)
      await log.undo()
      await log.close()
      t.same(await recovered(path, START, 9n), [one, three])
    },
  )
}

t.test('EntryLog never takes bytes of a client for a record, and detects entries missing in the middle', async (t) => {
  const path = await newFolder()
  const options = { path, stored: START, applied: START, segmentBytes: 64 }
  let log = await EntryLog.open(options)
  for (const position of [1n, 2n, 3n]) await log.append([entry(position, Buffer.alloc(100))], false)
  await log.close()
  const names = (await readdir(path)).sort()
  t.equal(names.length, 3)
  await appendFile(join(path, names[2] ?? ''), await readFile(join(path, names[1] ?? '')))
  log = await EntryLog.open(options)
  t.equal((await collect(log.read(START))).length, 3, 'bytes after the end of another segment are not a record')
  await log.close()
  await truncate(join(path, names[1] ?? ''), 60)
  await t.rejects(EntryLog.open(options), /entries before .* are missing/)
})

t.test('entries are read from the log if memory has no room for them', async (t) => {
  const path = await newFolder()
  const journal = await openLmdbJournal({ path, maxBytes: ALL, segmentBytes: 200, memoryBytes: 20 })
  t.teardown(() => journal.close())
  const texts = Array.from({ length: 20 }, (_, i) => `event ${i}`)
  for (const text of texts) await journal.write([append(text)])
  const found: string[] = []
  for (let block = await journal.claim(30); block; block = await journal.claim(30)) {
    found.push(...block.entries.map(({ body }) => body.toString()))
    t.same((await journal.claim(1))?.entries, block.entries, 'a block is the same when it is claimed again')
    await journal.acknowledge(block, [])
  }
  t.same(found, texts)
  const files = (await readdir(path)).filter((name) => name.startsWith('entries-'))
  t.ok(files.length <= 8, `${files.length} files are kept to be used again`)
})
