import { cp, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.js'
import { openLmdbRelocation } from '../../../src/journal/lmdb/relocation.js'
import { START } from '../../../src/model/position.js'
import { NO_IDS } from '../../../src/model/request-ids.js'
import { randomName, temporaryFolder } from '../../helper.js'

const folder = await temporaryFolder(t)
const ENTRIES = 30
const STATES = 50

/** A closed journal with entries, states and free pages. */
const whole = join(folder, 'whole')
await mkdir(whole)
const journal = await openLmdbJournal({ path: whole, maxBytes: 1e9 })
for (let i = 0; i < ENTRIES; i++) {
  await journal.write([
    {
      type: 'append',
      keyClass: 'secret',
      projectId: 'shop',
      count: 2,
      body: Buffer.from('{"events":[]}'),
      ids: NO_IDS,
    },
  ])
}
for (let i = 0; i < STATES; i++) {
  const stateKey = Buffer.from(`user ${i}`).toString('hex')
  const state = JSON.stringify({ text: 'x'.repeat(2000) })
  const commit = {
    type: 'commit',
    keyClass: 'secret',
    kind: 'profiles',
    projectId: 'shop',
    stateKey,
    expected: START,
  } as const
  await journal.write([{ ...commit, readAt: Date.now(), state, row: '{}', ids: NO_IDS }])
}
await journal.close()

async function copy(): Promise<string> {
  const path = join(folder, randomName('journal'))
  await cp(whole, path, { recursive: true })
  return path
}

const ACCIDENTS: [name: string, happen: (file: string, bytes: Buffer) => Promise<unknown>][] = [
  ['the stamp of the first page', (file, bytes) => writeFile(file, bytes.fill(0, 24, 28))],
  ['both first pages', (file, bytes) => writeFile(file, bytes.fill(0, 0, 8192))],
  ['the size of a page', (file, bytes) => writeFile(file, bytes.fill(0xff, 48, 52))],
  ['the end of the file', (file) => truncate(file, 5000)],
  ['all behind the first pages', (file, bytes) => writeFile(file, bytes.fill(0x5a, 8192))],
]
for (const [place, happen] of ACCIDENTS) {
  t.test(`if ${place} is damaged, the error says so and lists the contents of the log`, async (t) => {
    const path = await copy()
    const file = join(path, 'data.mdb')
    await happen(file, await readFile(file))
    const damaged = await readFile(file)
    const said = /data\.mdb is damaged: .*80 entries with 60 events of the project shop.*Restore.*--rebuild-journal/s
    await t.rejects(openLmdbJournal({ path, maxBytes: 1e9 }), said)
    await t.rejects(openLmdbRelocation({ path }).readStatus(), /data\.mdb is damaged/)
    t.ok((await readFile(file)).equals(damaged), 'it is left as it was')
    t.ok((await readdir(path)).includes('entries-1'))
  })
}

/** The same random numbers in every run. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

t.test('checkDatabase survives any damage to the first pages', async (t) => {
  const next = random(7)
  const bytes = await readFile(join(whole, 'data.mdb'))
  let refused = 0
  for (let round = 0; round < 12; round++) {
    const path = await copy()
    const damaged = Buffer.from(bytes)
    for (let flips = 1 + Math.floor(next() * 4); flips > 0; flips--) {
      // The important data is mostly at the beginning of a page.
      const page = Math.floor(next() * 6)
      const at = 4096 * page + Math.floor(next() * (next() < 0.7 ? 160 : 4096))
      if (at < damaged.length) damaged.writeUInt8(damaged.readUInt8(at) ^ (1 << Math.floor(next() * 8)), at)
    }
    await writeFile(join(path, 'data.mdb'), damaged)
    // A process that ends by a signal would end this one.
    const opened = await openLmdbJournal({ path, maxBytes: 1e9 }).catch((error: Error) => error)
    if (opened instanceof Error) {
      refused++
      t.match(opened.message, /damaged|missing|journal/, opened.message)
    } else {
      await opened
        .write([
          { type: 'append', keyClass: 'secret', projectId: 'shop', count: 1, body: Buffer.from('{}'), ids: NO_IDS },
        ])
        .catch(() => 0)
      await opened.close()
    }
    await rm(path, { recursive: true })
  }
  t.ok(refused > 0)
})
