import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId } from '../../src/model/event-id.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { startClickHouse } from '../helper.js'

const CLIENTS = 16
const EACH = 8

const engine = await startClickHouse(t)
const clickhouse = new ClickHouse({ url: engine.url })
t.teardown(() => clickhouse.close())
await migrate(clickhouse)

let positions = BigInt(Date.now()) << 16n

/** Stored events of a project of their own. */
async function eventsOf(projectId: string, count: number): Promise<string[]> {
  const position = ++positions
  const ids = Array.from({ length: count }, (_, index) => formatEventId({ position, index, journalId: 1 }))
  const rows = ids.map((id) => `('${projectId}', '${id}', 'e', 'u', 0, 0, '{}')`)
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties) VALUES ${rows}`,
  )
  return ids
}

async function propertiesOf(projectId: string): Promise<Map<string, string>> {
  const rows = await clickhouse.rows<{ id: string; properties: string }>(
    'SELECT toString(event_id) AS id, properties FROM events WHERE project_id = {project:String}',
    { project: projectId },
  )
  return new Map(rows.map(({ id, properties }) => [id, properties]))
}

/** A ClickHouse that counts its statements. */
function counting() {
  const count = { statements: 0 }
  const counted = new Proxy(clickhouse, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name === 'command') count.statements++
      return value.bind(target)
    },
  })
  return { count, edits: new EventEdits(Shards.of(counted)) }
}

t.test('clients that each wait for their answer share the statements', async (t) => {
  const ids = await eventsOf('together', CLIENTS * EACH)
  const { count, edits } = counting()
  // They begin one after the other, so that the first statement has one of them.
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = 0; turn < client; turn++) await new Promise((resolve) => setImmediate(resolve))
      for (let i = client; i < ids.length; i += CLIENTS) {
        t.ok(await edits.apply({ projectId: 'together', eventId: ids[i] ?? '', properties: `{"n":${i}}` }))
      }
    }),
  )
  t.strictSame(await propertiesOf('together'), new Map(ids.map((id, i) => [id, `{"n":${i}}`])))
  t.ok(count.statements < 1.7 * EACH, `${count.statements} statements for ${EACH} edits of each`)
})

t.test('a client alone waits for nobody', async (t) => {
  const ids = await eventsOf('alone', 5)
  const { count, edits } = counting()
  for (const id of ids) t.ok(await edits.apply({ projectId: 'alone', eventId: id, properties: '{"a":1}' }))
  t.equal(count.statements, ids.length)
  await Promise.all(ids.map((id) => edits.apply({ projectId: 'alone', eventId: id, properties: null })))
  // The four others do not come back; it waits for them once, and not for ever.
  t.notOk(await edits.apply({ projectId: 'alone', eventId: ids[0] ?? '', properties: '{"b":1}' }))
  t.strictSame(await propertiesOf('alone'), new Map())
})

t.test('every event has its own text, and no other event gets one', async (t) => {
  const [mine, others] = [await eventsOf('mine', 50), await eventsOf('others', 50)]
  const { edits } = counting()
  const text = (i: number) => JSON.stringify({ i, "it's": '\\ "\u0000 😀', long: 'x'.repeat(i * 100) })
  const ids = [...mine.slice(0, 25), ...others.slice(0, 25), formatEventId({ position: 1n, index: 0, journalId: 1 })]
  const found = await Promise.all(
    ids.map((eventId, i) => edits.apply({ projectId: 'mine', eventId, properties: text(i) })),
  )
  t.strictSame(
    found,
    ids.map((_, i) => i < 25),
    'only those of the project',
  )
  t.strictSame(await propertiesOf('mine'), new Map(mine.map((id, i) => [id, i < 25 ? text(i) : '{}'])))
  t.strictSame(await propertiesOf('others'), new Map(others.map((id) => [id, '{}'])))
})
