import t from 'tap'
import { KeyUsage, type KeyUse } from '../../src/keys/key-usage.js'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { silent, until } from '../helper.js'

const key = () => storedKey(makeKey('write'), { projectId: 'p', kind: 'write' })

t.test('the day of a use is stored once, and refusals are added up over failures of the store', async (t) => {
  const closing = new AbortController()
  const added: KeyUse[][] = []
  let fails = true
  let tries = 0
  const add = async (uses: KeyUse[]) => {
    tries++
    if (fails) throw new Error('unavailable')
    added.push(uses)
  }
  const usage = new KeyUsage({ table: { add }, log: silent, closing: closing.signal, everyMs: 10 })
  t.teardown(() => closing.abort())
  const [used, refused] = [key(), key()]
  for (let i = 0; i < 3; i++) usage.noteUse(used)
  usage.noteRefusal(refused)
  await until('two failures', () => tries >= 2)
  usage.noteRefusal(refused)
  usage.noteRefusal(refused)
  fails = false
  await until('the counts', () => added.length > 0)
  const day = added[0]?.[0]?.usedOn
  t.match(day, /^\d{4}-\d\d-\d\d$/)
  const byId = new Map(added.flat().map((use) => [use.id, use]))
  t.match(byId.get(used.id), { projectId: 'p', usedOn: day, refused: 0, refusedOn: null })
  t.match(byId.get(refused.id), { usedOn: null })
  const sum = (id: string) => added.flat().reduce((all, use) => all + (use.id === id ? use.refused : 0), 0)
  await until('all refusals', () => sum(refused.id) === 3)

  usage.noteUse(used)
  usage.noteUse(refused)
  await until('the next use', () => added.flat().some(({ id, usedOn }) => id === refused.id && usedOn !== null))
  t.equal(added.flat().filter(({ id, usedOn }) => id === used.id && usedOn !== null).length, 1, 'once a day')

  const before = tries
  closing.abort()
  usage.noteRefusal(used)
  await usage.close()
  t.ok(tries > before, 'the rest is stored when a process ends')
  t.equal(sum(used.id), 1)
})

t.test('a use counts for the day on which it happened, not the day on which it is stored', async (t) => {
  const closing = new AbortController()
  const added: KeyUse[] = []
  let at = Date.parse('2026-12-31T23:59:59Z')
  let fails = false
  const add = async (uses: KeyUse[]) => {
    if (fails) throw new Error('unavailable')
    added.push(...uses)
  }
  const options = { table: { add }, log: silent, closing: closing.signal, everyMs: 3_600_000, now: () => at }
  const usage = new KeyUsage(options)
  t.teardown(() => closing.abort())
  const [used, refused] = [key(), key()]
  usage.noteUse(used)
  usage.noteRefusal(refused)
  at += 2_000
  fails = true
  await usage.close()
  fails = false
  usage.noteRefusal(refused)
  await usage.close()
  t.strictSame(
    added.map(({ id, usedOn, refused, refusedOn }) => [id, usedOn, refused, refusedOn]),
    [
      [used.id, '2026-12-31', 0, null],
      [refused.id, null, 2, '2027-01-01'],
    ],
  )
  usage.noteUse(used)
  await usage.close()
  t.equal(added.at(-1)?.usedOn, '2027-01-01')
})
