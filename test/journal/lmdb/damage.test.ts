import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Journal } from '../../../src/journal/journal.js'
import { EntryLog } from '../../../src/journal/lmdb/entry-log.js'
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.js'
import { openLmdbRelocation } from '../../../src/journal/lmdb/relocation.js'
import { START } from '../../../src/model/position.js'
import { randomName, temporaryFolder } from '../../helper.js'
import { ALL, append, commit } from '../writes.js'

/** Small, so that a file holds only a few entries. */
const SEGMENT_BYTES = 300
const folder = await temporaryFolder(t)

async function newFolder(): Promise<string> {
  const path = join(folder, randomName('journal'))
  await mkdir(path)
  return path
}

const openAt = (path: string) => openLmdbJournal({ path, maxBytes: ALL, segmentBytes: SEGMENT_BYTES })
const commitProfile = (journal: Journal) => journal.write([commit('a', START, '{}')])

async function filesOf(path: string): Promise<string[]> {
  const names = (await readdir(path)).filter((name) => name.startsWith('entries-'))
  return names.sort((a, b) => Number(a.slice(8)) - Number(b.slice(8))).map((name) => join(path, name))
}

async function flip(path: string, at: number): Promise<void> {
  const bytes = await readFile(path)
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
  await writeFile(path, bytes)
}

/** A journal of 30 entries in several files, closed. */
async function filled(): Promise<{ path: string; files: string[] }> {
  const path = await newFolder()
  const journal = await openAt(path)
  for (let i = 0; i < 30; i++) await journal.write([append(`event ${i}`)])
  await journal.close()
  return { path, files: await filesOf(path) }
}

const places = [
  ['the first record of the oldest file', 0, 40],
  ['the header of the oldest file', 0, 10],
  ['the first record of the newest file', -1, 60],
  ['the length of the first record of the newest file', -1, 31],
  ['the header of the newest file', -1, 22],
] as const
for (const [place, index, at] of places) {
  t.test(`the journal does not open if ${place} is damaged`, async (t) => {
    const { path, files } = await filled()
    t.ok(files.length > 2)
    await flip(files.at(index) ?? '', at)
    await t.rejects(openAt(path), /is damaged|are missing/)
    await flip(files.at(index) ?? '', at)
    const journal = await openAt(path)
    t.equal((await journal.depth()).entries, 30, 'as the files were left as they are')
    await journal.close()
  })
}

t.test('the journal does not open without its oldest file', async (t) => {
  const { path, files } = await filled()
  await rm(files[0] ?? '')
  await t.rejects(openAt(path), /are missing/)
})

t.test('the journal does not open without the entries of a frozen block, or of a change that LMDB has', async (t) => {
  for (const step of [(journal: Journal) => journal.claim(ALL), (journal: Journal) => commitProfile(journal)]) {
    const path = await newFolder()
    const journal = await openAt(path)
    await journal.write([append('one')])
    await step(journal)
    await journal.close()
    for (const file of await filesOf(path)) await rm(file)
    await t.rejects(openAt(path), /last entries of the journal are missing/)
  }
})

t.test('neither the journal nor a relocation starts from scratch if there are entries but no data.mdb', async (t) => {
  const { path } = await filled()
  await rm(join(path, 'data.mdb'))
  await t.rejects(openAt(path), /no data\.mdb/)
  const relocation = openLmdbRelocation({ path })
  await t.rejects(relocation.create(), /no data\.mdb/)
  await relocation.close()
})

/** Makes all writes of this process fail, to files with this name and these flags (octal). */
function breakWrites(path: string, flags = 0): void {
  for (const fd of readdirSync('/proc/self/fd')) {
    const link = `/proc/self/fd/${fd}`
    let target = ''
    try {
      target = readlinkSync(link)
    } catch {
      continue
    }
    const found = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8').match(/flags:\s*(\d+)/)?.[1] ?? ''
    if (target !== path || (Number.parseInt(found, 8) & flags) !== flags) continue
    closeSync(Number(fd))
    const spare: number[] = []
    let taken = openSync(path, 'r')
    for (; taken !== Number(fd); taken = openSync(path, 'r')) spare.push(taken)
    for (const other of spare) closeSync(other)
  }
}

const noProc = process.platform !== 'linux' && 'needs /proc'

t.test(
  'a write that fails and cannot be taken back is not said to have stored nothing',
  { skip: noProc },
  async (t) => {
    const path = await newFolder()
    const journal = await openAt(path)
    t.teardown(() => journal.close())
    await journal.write([append('one')])
    const [file] = await filesOf(path)
    breakWrites(file ?? '')
    await t.rejects(journal.write([append('two')]), { code: 'internal' })
    await t.rejects(journal.write([append('three')]), { code: 'unavailable' }, 'nothing is appended after it')
  },
)

const O_DSYNC = 0o10000
t.test('the journal refuses writes after a transaction with an unknown outcome', { skip: noProc }, async (t) => {
  const path = await newFolder()
  let journal = await openAt(path)
  await journal.write([append('one')])
  breakWrites(join(path, 'data.mdb'), O_DSYNC)
  // A value that was just read may still be returned as it was before the transaction.
  const failed = commitProfile(journal)
  let reading = setImmediate(function read() {
    journal.readStates(['aa'], 1).catch(() => undefined)
    reading = setImmediate(read)
  })
  await t.rejects(failed, { code: 'internal' })
  clearImmediate(reading)
  await t.rejects(journal.write([append('two')]), { code: 'unavailable' })
  t.notOk(journal.isUp)
  await t.rejects(journal.ping())
  await journal.close()
  journal = await openAt(path)
  t.teardown(() => journal.close())
  t.equal((await journal.depth()).entries, 1)
  await commitProfile(journal)
  t.equal((await journal.depth()).entries, 2)
})

t.test('unneeded files that cannot be removed do no harm', async (t) => {
  const path = await newFolder()
  const warned: string[] = []
  const warn = ({ file }: { file: string }) => warned.push(file)
  const log = await EntryLog.open({ path, stored: START, applied: START, segmentBytes: 1, log: { warn } })
  t.teardown(() => log.close())
  for (let position = 1n; position <= 20n; position++) {
    const body = Buffer.from('x')
    await log.append(
      [
        {
          position,
          kind: 'events',
          projectId: 'p',
          count: 1,
          receivedAt: 0,
          body,
          shares: [{ holder: 'secret:p', bytes: 1 }],
        },
      ],
      false,
    )
  }
  for (const file of await filesOf(path)) {
    await rm(file)
    await mkdir(file)
  }
  await log.forget(20n)
  t.equal(log.last, 20n)
  t.ok(warned.length > 0)
  for (const file of warned) t.ok((await filesOf(path)).includes(file), `${file} is there, and the log says so`)
})
