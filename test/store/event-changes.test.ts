import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import {
  ABANDONED,
  forgetSettledChanges,
  logChange,
  readOpenChanges,
  requestColumn,
  requestFacts,
  SETTLED,
} from '../../src/store/event-changes.js'
import { FactLead } from '../../src/store/fact-lead.js'
import { silent, until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

const MINUTE_S = 60
const DAY_S = 24 * 60 * MINUTE_S
const BEGUN = 0
const ENDED = 2

const { url, clickhouse } = await emptyClickHouse()

interface Note {
  id: string
  state: number
  /** seconds before now */
  age: number
}

/** Inserts states of changes of a project with times in the past, each as a separate part. */
async function note(project: string, notes: Note[]): Promise<void> {
  for (const { id, state, age } of notes)
    await clickhouse.command(
      `INSERT INTO event_changes (project_id, id, kind, scope, state, noted_at)
       SELECT {project:String}, {id:UUID}, 'month', '{"month":"202611","before":null}', {state:UInt8}, now64(3) - {age:UInt32}`,
      { project, id, state, age },
    )
}

async function idsIn(table: 'event_changes' | 'event_change_log', project: string): Promise<string[]> {
  const rows = await clickhouse.rows<{ id: string }>(
    `SELECT DISTINCT toString(id) AS id FROM ${table} WHERE project_id = {project:String} AND kind != 'forgotten'
     ORDER BY id`,
    { project },
  )
  return rows.map(({ id }) => id)
}

const openIds = async () => (await readOpenChanges(clickhouse)).map(({ id }) => id).sort()

t.test('a settled change leaves the working log after ten minutes', async (t) => {
  const [old = '', young = '', abandoned = '', ended = '', begun = ''] = Array.from({ length: 5 }, () => randomUUID())
  const settled = (id: string, age: number): Note[] => [
    { id, state: BEGUN, age: age + 2 },
    { id, state: ENDED, age: age + 1 },
    { id, state: SETTLED, age },
  ]
  await note('shop', [
    ...settled(old, 11 * MINUTE_S),
    ...settled(young, 9 * MINUTE_S),
    { id: abandoned, state: ABANDONED, age: DAY_S },
    { id: ended, state: ENDED, age: DAY_S },
    { id: begun, state: BEGUN, age: DAY_S },
  ])
  const open = [abandoned, ended, begun].sort()
  t.strictSame(await openIds(), open)

  for (let i = 0; i < 2; i++) {
    await forgetSettledChanges(clickhouse)
    t.strictSame(await idsIn('event_changes', 'shop'), [young, ...open].sort())
    t.strictSame(await openIds(), open, 'a forgotten change is not open again')
  }
})

t.test('a project has one note of its forgotten changes, which is replaced by that of the next ones', async (t) => {
  const readNotes = async () =>
    await clickhouse.rows<{ id: string }>(
      "SELECT toString(id) AS id FROM event_changes WHERE project_id = 'noted' AND kind = 'forgotten'",
    )
  const forget = async () => {
    await clickhouse.command(
      "ALTER TABLE event_changes UPDATE noted_at = noted_at - 3600 WHERE project_id = 'noted'",
      {},
      { mutations_sync: '2' },
    )
    await forgetSettledChanges(clickhouse)
    return await readNotes()
  }
  await note('noted', [{ id: randomUUID(), state: SETTLED, age: 0 }])
  const first = await forget()
  t.equal(first.length, 1)
  t.strictSame(await forget(), first, 'nothing was forgotten')
  await note('noted', [{ id: randomUUID(), state: SETTLED, age: 0 }])
  const second = await forget()
  t.equal(second.length, 1)
  t.notSame(second, first)
})

t.test('the oldest open changes are read first, as many as fit', async (t) => {
  const ids = Array.from({ length: 3 }, () => randomUUID())
  const before = new Set(await openIds())
  await note(
    'many',
    ids.map((id, i) => ({ id, state: ENDED, age: 30 * DAY_S - i })),
  )
  const read = async (limit: { changes: number; bytes: number }) =>
    (await readOpenChanges(clickhouse, [], limit)).map(({ id }) => id)
  t.strictSame(await read({ changes: 2, bytes: 1_000 }), ids.slice(0, 2))
  t.strictSame(await read({ changes: 100, bytes: 60 }), ids.slice(0, 1))
  t.strictSame(await read({ changes: 100, bytes: 1 }), ids.slice(0, 1), 'at least one')
  t.strictSame(new Set(await openIds()), new Set([...before, ...ids]))
})

t.test('a change of two projects stays open for the one whose facts have not followed it', async (t) => {
  const id = randomUUID()
  await note('followed', [
    { id, state: ENDED, age: 12 * MINUTE_S },
    { id, state: SETTLED, age: 11 * MINUTE_S },
  ])
  await note('behind', [{ id, state: ENDED, age: 12 * MINUTE_S }])
  await forgetSettledChanges(clickhouse)
  t.strictSame(await idsIn('event_changes', 'behind'), [id])
  t.ok((await openIds()).includes(id))
})

t.test('a change that is interrupted while it is forgotten is not open again', async (t) => {
  const id = randomUUID()
  await note('cut', [
    { id, state: ENDED, age: 11 * MINUTE_S },
    { id, state: SETTLED, age: 11 * MINUTE_S },
  ])
  const cut = new ClickHouse({ url: url })
  t.teardown(() => cut.close())
  const { command } = cut
  for (let limit = 0; limit < 3; limit++) {
    let sent = 0
    cut.command = async (statement, ...rest) => {
      if (sent++ === limit) throw new Error('the process ends')
      await command.call(cut, statement, ...rest)
    }
    await t.rejects(forgetSettledChanges(cut), { message: 'the process ends' })
    t.notOk((await openIds()).includes(id))
    t.strictSame(await idsIn('event_changes', 'cut'), [id])
  }

  await forgetSettledChanges(clickhouse)
  t.strictSame(await idsIn('event_changes', 'cut'), [])
})

t.test('a removal of settled changes that fails is reported', async (t) => {
  await note('fails', [{ id: randomUUID(), state: SETTLED, age: 11 * MINUTE_S }])
  await clickhouse.command("ALTER TABLE event_changes DELETE WHERE throwIf(1, 'broken')", {}, { mutations_sync: '0' })
  const failed = "SELECT 1 FROM system.mutations WHERE table = 'event_changes' AND latest_fail_reason != ''"
  await until('the failure', async () => (await clickhouse.rows(failed)).length > 0)
  await t.rejects(forgetSettledChanges(clickhouse), { message: /system\.mutations/ })
  await clickhouse.command("KILL MUTATION WHERE table = 'event_changes'")
  await forgetSettledChanges(clickhouse)
  t.strictSame(await idsIn('event_changes', 'fails'), [])
})

t.test('the log has changes of events only, once they are settled', async (t) => {
  const scope = { kind: 'users' as const, users: ['1'] }
  await logChange(clickhouse, new Map([['logged', scope]]), async () => undefined)
  await requestFacts(clickhouse, 'take_in', 'logged')
  await requestColumn(clickhouse, ['plan'])
  const changes = await readOpenChanges(clickhouse)
  const [id = ''] = changes.flatMap((change) => (change.scope.kind === 'users' ? change.id : []))
  t.strictSame(await idsIn('event_change_log', 'logged'), [])

  const { signal } = new AbortController()
  const lead = await FactLead.take(clickhouse, { process: randomUUID(), isShared: false, log: silent, signal })
  for (let i = 0; i < changes.length; ) i += (await lead?.follow(changes.slice(i))) ?? changes.length
  t.strictSame(await openIds(), [])
  t.strictSame(await idsIn('event_change_log', 'logged'), [id])
  t.strictSame(await idsIn('event_change_log', ''), [])
})

t.test('the log loses a day after seven days', async (t) => {
  const [kept = '', gone = ''] = [randomUUID(), randomUUID()]
  for (const [id, age] of [
    [gone, 8 * DAY_S],
    [kept, 6 * DAY_S],
  ]) {
    await clickhouse.command(
      `INSERT INTO event_change_log (settled_at, project_id, id, kind, scope)
       SELECT now64(3) - {age:UInt32}, 'aging', {id:UUID}, 'users', '{"users":[]}'`,
      { id: String(id), age: Number(age) },
    )
  }
  await clickhouse.command('OPTIMIZE TABLE event_change_log FINAL')
  t.strictSame(await idsIn('event_change_log', 'aging'), [kept])
})
