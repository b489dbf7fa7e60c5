import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId, parseEventId } from '../../src/model/event-id.js'
import { deleteEventsOfBatches } from '../../src/store/batches.js'
import { insertDeadLetter } from '../../src/store/dead-letters.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { unnoted, until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

const CLIENTS = 16
const EACH = 8

const { clickhouse } = await emptyClickHouse()

let positions = BigInt(Date.now()) << 16n

function nextIds(count: number): string[] {
  const position = ++positions
  return Array.from({ length: count }, (_, index) => formatEventId({ position, index, journalId: 1 }))
}

/** Stores events of a new project. */
async function eventsOf(projectId: string, count: number, ids = nextIds(count)): Promise<string[]> {
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

/** Edits with a ClickHouse some of whose methods are replaced. */
function editsWith(calls: Partial<ClickHouse>): EventEdits {
  return new EventEdits(shardsWith(calls), unnoted)
}

function shardsWith(calls: Partial<ClickHouse>): Shards {
  const extended = new Proxy(clickhouse, {
    get(target, name) {
      const value = Reflect.get(calls, name) ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return Shards.of(extended)
}

/** Edits with a ClickHouse that counts its statements, except for those of the log of changes. */
function counting() {
  const count = { statements: 0 }
  const edits = editsWith({
    command: async (query, ...rest) => {
      if (!query.startsWith('INSERT INTO event_changes')) count.statements++
      await clickhouse.command(query, ...rest)
    },
  })
  return { count, edits }
}

t.test('EventEdits lets clients that wait for their responses share statements', async (t) => {
  const ids = await eventsOf('together', CLIENTS * EACH)
  const { count, edits } = counting()
  // They begin one after the other, so that the first statement contains only one.
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

t.test('an event that is stored while an edit looks for it is edited, and the log of changes names it', async (t) => {
  const ids = nextIds(2)
  let isLooked = false
  const edits = editsWith({
    rows: async <Row>(...args: Parameters<ClickHouse['rows']>) => {
      const rows = await clickhouse.rows<Row>(...args)
      isLooked = true
      return rows
    },
    command: async (query, ...rest) => {
      if (query.startsWith('UPDATE') && (await propertiesOf('late')).size === 0) {
        await until('the look', () => isLooked)
        await eventsOf('late', 2, ids)
      }
      await clickhouse.command(query, ...rest)
    },
  })
  const [one = '', other = ''] = ids
  const edit = (eventId: string, properties: string | null) => edits.apply({ projectId: 'late', eventId, properties })
  t.strictSame(await Promise.all([edit(one, '{"edited":1}'), edit(other, null)]), [true, true])
  t.strictSame(await propertiesOf('late'), new Map([[one, '{"edited":1}']]))
  await edits.close()
  const logged = await clickhouse.rows<{ scope: string }>(
    "SELECT argMax(scope, state) AS scope FROM event_changes WHERE project_id = 'late' GROUP BY id",
  )
  t.strictSame(new Set(logged.flatMap(({ scope }) => JSON.parse(scope).ids)), new Set(ids))
})

t.test('EventEdits does not make a single client wait', async (t) => {
  const ids = await eventsOf('alone', 5)
  const { count, edits } = counting()
  for (const id of ids) t.ok(await edits.apply({ projectId: 'alone', eventId: id, properties: '{"a":1}' }))
  t.equal(count.statements, ids.length)
  await Promise.all(ids.map((id) => edits.apply({ projectId: 'alone', eventId: id, properties: null })))
  // The four others never return; it waits for them once, with a limit.
  t.notOk(await edits.apply({ projectId: 'alone', eventId: ids[0] ?? '', properties: '{"b":1}' }))
  t.strictSame(await propertiesOf('alone'), new Map())
})

t.test('EventEdits reports stored updates as successful even if the deletes of their batch fail', async (t) => {
  const [kept = '', doomed = '', missing = ''] = await eventsOf('full', 3)
  await counting().edits.apply({ projectId: 'full', eventId: missing, properties: null })
  const edits = editsWith({
    command: async (...statement) => {
      if (statement[0].startsWith('DELETE')) throw new Error('not enough space')
      await clickhouse.command(...statement)
    },
  })
  const changes = [
    { eventId: kept, properties: '{"a":1}' },
    { eventId: doomed, properties: '{"b":1}' },
    { eventId: doomed, properties: null },
    { eventId: missing, properties: null },
  ]
  const settled = await Promise.allSettled(changes.map((change) => edits.apply({ projectId: 'full', ...change })))
  t.match(settled, [{ value: true }, { reason: Error }, { reason: Error }, { value: false }])
  t.strictSame(
    await propertiesOf('full'),
    new Map([
      [kept, '{"a":1}'],
      [doomed, '{}'],
    ]),
  )
})

t.test('a deletion is noted even if it fails or finds nothing, because events may be gone', async (t) => {
  const projectId = 'noted'
  const [[eventId = ''], [ofBatch = '']] = [await eventsOf(projectId, 1), await eventsOf(projectId, 1)]
  const place = parseEventId(ofBatch)
  if (!place) throw new Error(ofBatch)
  let isLost = true
  const shards = shardsWith({
    command: async (query, ...rest) => {
      await clickhouse.command(query, ...rest)
      if (isLost && query.startsWith('DELETE')) throw new Error('the response was lost')
    },
  })
  const notes: string[] = []
  const note = async (project: string) => void notes.push(project)
  const edits = new EventEdits(shards, note)
  t.ok(await edits.apply({ projectId, eventId, properties: '{"a":1}' }))
  t.strictSame(notes, [])
  await t.rejects(edits.apply({ projectId, eventId, properties: null }))
  t.strictSame(notes.splice(0), [projectId])
  t.notOk(await edits.apply({ projectId, eventId, properties: null }))
  t.strictSame(notes.splice(0), [projectId])

  await t.rejects(deleteEventsOfBatches(shards, projectId, [place], note))
  t.strictSame(notes.splice(0), [projectId])
  isLost = false
  await deleteEventsOfBatches(shards, projectId, [place], note)
  t.strictSame(notes, [projectId])
})

t.test('EventEdits waits for an interrupted deletion before its change begins, and not within it', async (t) => {
  const [[early = '', late = ''], [waiting = '']] = [await eventsOf('known', 2), await eventsOf('new', 1)]
  const letterAt = parseEventId(late)
  if (!letterAt) throw new Error(late)
  let looks = 0
  const edits = editsWith({
    rows: async <Row>(...args: Parameters<ClickHouse['rows']>) => {
      if (args[0].includes('system.processes')) looks++
      return await clickhouse.rows<Row>(...args)
    },
  })
  const remove = (projectId: string, eventId: string) => edits.apply({ projectId, eventId, properties: null })
  t.ok(await remove('known', early))
  const body = Buffer.from('{"events":[{"event":"e","distinct_id":"u"},{"event":"e","distinct_id":"u"}]}')
  const entry = {
    position: letterAt.position,
    projectId: 'known',
    kind: 'events' as const,
    count: 2,
    receivedAt: 0,
    body,
  }
  await insertDeadLetter(clickhouse, 1, entry, 'ClickHouse error 27', 'known')

  // A deletion of another process that ClickHouse is carrying out.
  const left = JSON.stringify({ query: 'SELECT 0 AS count', parameters: {} })
  for (const project of ['known', 'new']) {
    await clickhouse.command(
      `INSERT INTO deleted_events (project_id, counter, revision, count, pending, left_query)
       SELECT {project:String}, generateUUIDv4(), 1, 0, 1, {left:String}`,
      { project, left },
    )
  }
  const id = randomUUID()
  const running = clickhouse
    .command(
      'DELETE FROM event_facts WHERE (SELECT max(sleepEachRow(1)) FROM numbers(25) SETTINGS max_block_size = 1) = 1',
      {},
      { query_id: id },
    )
    .catch(() => undefined)
  const isRunning = async () =>
    (await clickhouse.rows('SELECT 1 FROM system.processes WHERE query_id = {id:String}', { id })).length > 0
  await until('the deletion', isRunning)

  t.ok(await remove('known', late))
  t.ok(await isRunning(), 'the change has not waited')
  t.strictSame(await clickhouse.rows("SELECT event_count FROM dead_letters WHERE project_id = 'known'"), [
    { event_count: 1 },
  ])

  looks = 0
  const removed = remove('new', waiting)
  await until('the wait', () => looks > 0)
  t.equal(await logOf('new'), undefined, 'the change has not begun')
  await clickhouse.command('KILL QUERY WHERE query_id = {id:String} ASYNC', { id })
  t.ok(await removed)
  await running
})

t.test('EventEdits gives every event its own text, and no other event', async (t) => {
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

t.test('EventEdits changes an event only for its own project', async (t) => {
  const [[first = ''], [second = '']] = [await eventsOf('first', 1), await eventsOf('second', 1)]
  const { edits } = counting()
  const found = await Promise.all(
    [first, second].flatMap((eventId) => [
      edits.apply({ projectId: 'first', eventId, properties: '{"by":"first"}' }),
      edits.apply({ projectId: 'second', eventId, properties: '{"by":"second"}' }),
    ]),
  )
  t.strictSame(found, [true, false, false, true])
  t.strictSame(await propertiesOf('first'), new Map([[first, '{"by":"first"}']]))
  t.strictSame(await propertiesOf('second'), new Map([[second, '{"by":"second"}']]))

  const deleted = [edits.apply({ projectId: 'second', eventId: first, properties: null })]
  deleted.push(edits.apply({ projectId: 'first', eventId: second, properties: null }))
  t.strictSame(await Promise.all(deleted), [false, false])
  t.equal((await propertiesOf('first')).size + (await propertiesOf('second')).size, 2)
})

t.test('EventEdits applies concurrent edits in the order of their calls', async (t) => {
  const [kept = '', gone = ''] = await eventsOf('order', 2)
  const { count, edits } = counting()
  const apply = (eventId: string, properties: string | null) => edits.apply({ projectId: 'order', eventId, properties })
  const found = await Promise.all([
    apply(kept, '{"n":1}'),
    apply(gone, '{"n":1}'),
    apply(gone, null),
    apply(kept, '{"n":2}'),
    apply(gone, '{"n":2}'),
    apply(gone, null),
  ])
  t.strictSame(found, [true, true, true, true, false, false])
  t.strictSame(await propertiesOf('order'), new Map([[kept, '{"n":2}']]))
  t.equal(count.statements, 4, 'one UPDATE, and one DELETE between two counts of deleted events')
})

/** The last change of a project in the log. */
async function logOf(projectId: string): Promise<{ state: number; scope: string } | undefined> {
  const [last] = await clickhouse.rows<{ state: number; scope: string }>(
    'SELECT state, scope FROM event_changes FINAL WHERE project_id = {project:String} ORDER BY noted_at DESC LIMIT 1',
    { project: projectId },
  )
  return last
}

const ENDED = 2

async function untilEnded(projectId: string): Promise<string> {
  return await until('the end of the change', async () => {
    const last = await logOf(projectId)
    return last?.state === ENDED && last.scope
  })
}

t.test('EventEdits logs which events it may have changed if it cannot look for them', async (t) => {
  const [eventId = ''] = await eventsOf('fails', 1)
  const edits = editsWith({
    rows: async () => {
      throw new Error('no look')
    },
  })
  await t.rejects(edits.apply({ projectId: 'fails', eventId, properties: '{"a":1}' }), { message: 'no look' })
  await edits.close()
  t.strictSame(JSON.parse((await logOf('fails'))?.scope ?? ''), { ids: [eventId] })
})

t.test('EventEdits soon logs the end of its last change, with the number of events', async (t) => {
  const [kept = '', doomed = ''] = await eventsOf('ends', 2)
  const missing = formatEventId({ position: 1n, index: 1, journalId: 1 })
  const { edits } = counting()
  await Promise.all([
    edits.apply({ projectId: 'ends', eventId: kept, properties: '{"a":1}' }),
    edits.apply({ projectId: 'ends', eventId: missing, properties: '{"a":1}' }),
    edits.apply({ projectId: 'ends', eventId: doomed, properties: null }),
  ])
  t.strictSame(JSON.parse(await untilEnded('ends')), { ids: [kept, doomed] })
})

t.test('EventEdits has logged everything once it is closed', async (t) => {
  const [eventId = ''] = await eventsOf('closes', 1)
  const { edits } = counting()
  t.ok(await edits.apply({ projectId: 'closes', eventId, properties: '{"a":1}' }))
  await edits.close()
  t.equal((await logOf('closes'))?.state, ENDED)
})

t.test('EventEdits logs an end again that ClickHouse has refused, and does not fail', async (t) => {
  const [first = '', second = ''] = await eventsOf('refuses', 2)
  let refused = 0
  const edits = editsWith({
    command: async (query, ...rest) => {
      if (query.includes(`"state":${ENDED}`) && refused++ === 0) throw new Error('no room')
      await clickhouse.command(query, ...rest)
    },
  })
  t.ok(await edits.apply({ projectId: 'refuses', eventId: first, properties: '{"a":1}' }))
  await untilEnded('refuses')
  t.equal(refused, 2)
  t.ok(await edits.apply({ projectId: 'refuses', eventId: second, properties: '{"a":1}' }))
})

t.test('EventEdits changes nothing that is not in the log of changes', async (t) => {
  const [eventId = ''] = await eventsOf('unlogged', 1)
  const edits = editsWith({
    command: async (query, ...rest) => {
      if (query.startsWith('INSERT INTO event_changes')) throw new Error('no log')
      await clickhouse.command(query, ...rest)
    },
  })
  for (const properties of ['{"a":1}', null]) {
    await t.rejects(edits.apply({ projectId: 'unlogged', eventId, properties }), { message: 'no log' })
  }
  t.strictSame(await propertiesOf('unlogged'), new Map([[eventId, '{}']]))
})
