import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreError } from '../../src/clickhouse/errors.js'
import { ApiError } from '../../src/contract/errors.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { silent, unnoted, until, WAIT_LIMIT_MS } from '../helper.js'
import { openShard } from './shard.js'

/** A deletion of facts of the project `bad`, in base64. */
const IN_BAD = /DELETE FROM event_facts.*YmFk/s

function some(count: number) {
  return Array.from({ length: count }, (_, i) => ({
    event: 'e',
    distinct_id: `u${i}`,
    timestamp: Date.UTC(2026, 10, 20),
    properties: '{"plan":"pro"}',
  }))
}

/** A shard with facts of two projects. `refuse` sets which statements ClickHouse refuses from a copier. */
async function openRefusing(t: Test) {
  const shard = await openShard(t)
  const ids = { good: await shard.store('good', some(10)), bad: await shard.store('bad', some(10)) }
  const first = shard.copier()
  await shard.complete(['good', 'bad'])
  await first.close()
  const refusing = shard.open()
  const command = refusing.command.bind(refusing)
  let refused: RegExp | null = null
  let failures = 0
  refusing.command = async (query, parameters, ...rest) => {
    if (refused?.test(`${query} ${JSON.stringify(parameters)}`)) {
      failures++
      throw new StoreError(49, 'as if there were a fault in ClickHouse')
    }
    await command(query, parameters, ...rest)
  }
  const edits = new EventEdits(shard.shards, unnoted)
  return {
    ...shard,
    refusing,
    countFailures: () => failures,
    refuse: (statements: RegExp | null) => {
      refused = statements
    },
    edit: (projectId: 'good' | 'bad', i: number) =>
      edits.apply({ projectId, eventId: ids[projectId][i] ?? '', properties: '{"edited":true}' }),
  }
}

async function countOpen(clickhouse: ClickHouse, project: string): Promise<number> {
  const sql = 'SELECT 1 FROM event_changes FINAL WHERE state < 3 AND project_id = {project:String}'
  return (await clickhouse.rows(sql, { project })).length
}

async function readEpoch(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ epoch: number }>('SELECT max(epoch) AS epoch FROM facts_state')
  return row?.epoch ?? 0
}

t.test('a project whose events cannot be copied does not hold up the others', async (t) => {
  const { refusing, refuse, countFailures, ...shard } = await openRefusing(t)
  refuse(/INSERT INTO event_facts.*"bad"/s)
  shard.copier({ clickhouse: refusing, log: silent })
  for (let i = 0; i < 3; i++) {
    for (const project of ['bad', 'good']) await shard.store(project, some(10))
    await shard.complete(['good'])
  }
  t.ok(countFailures() > 0)
  t.equal(await shard.countFacts(), 50)
  refuse(null)
  await shard.complete(['bad', 'good'])
  t.equal(await shard.countDifferences(), 0)
})

t.test('a project whose changes cannot be followed does not hold up the others', async (t) => {
  const { refusing, refuse, edit, countFailures, clickhouse, ...shard } = await openRefusing(t)
  refuse(IN_BAD)
  shard.copier({ clickhouse: refusing, log: silent })
  for (let i = 0; i < 3; i++) {
    await edit('bad', i)
    await edit('good', i)
    await until('the good project', async () => (await countOpen(clickhouse, 'good')) === 0)
    await shard.store('good', some(10))
    await until('its new events', async () => (await shard.countFacts()) === 20 + 10 * (i + 1))
  }
  t.ok(countFailures() > 0)
  t.ok((await countOpen(clickhouse, 'bad')) > 0)
  refuse(null)
  await shard.complete(['bad', 'good'])
  t.equal(await shard.countDifferences(), 0)
})

t.test('facts that cannot follow a change are copied again in the end', async (t) => {
  const { refusing, refuse, edit, countFailures, ...shard } = await openRefusing(t)
  refuse(IN_BAD)
  const warned: string[] = []
  const log = { info: () => undefined, warn: (...[, text]: [unknown, string?]) => void warned.push(text ?? '') }
  shard.copier({ clickhouse: refusing, log, setbackPauses: { firstMs: 1_000, maxMs: 1_000 } })
  await edit('bad', 0)
  // On a busy machine, each attempt may come so late that the pause before the next one doubles.
  await until('all attempts', () => countFailures() >= 10, 3 * WAIT_LIMIT_MS)
  await shard.complete(['bad', 'good'])
  t.equal(await shard.countDifferences(), 0)
  t.equal(countFailures(), 10)
  t.equal(warned.filter((text) => text.includes('cannot follow')).length, 1)
})

t.test('changes are followed while a journal is unavailable', async (t) => {
  const { edit, clickhouse, ...shard } = await openRefusing(t)
  let isUp = false
  const depth = async () => {
    if (!isUp) throw new ApiError('unavailable', 'The journal is unavailable.')
    return { bytes: 0 }
  }
  shard.copier({ journals: [{ depth, listen: () => () => undefined }] as never })
  await edit('bad', 0)
  await until('the first change', async () => (await countOpen(clickhouse, 'bad')) === 0)
  const epoch = await readEpoch(clickhouse)
  await shard.store('good', some(10))
  for (let i = 1; i < 4; i++) {
    await edit('bad', i)
    await until('the next change', async () => (await countOpen(clickhouse, 'bad')) === 0)
  }
  t.equal(await readEpoch(clickhouse), epoch, 'the same process leads')
  t.equal(await shard.countFacts(), 20)
  isUp = true
  await shard.complete(['bad', 'good'])
  t.equal(await shard.countDifferences(), 0)
})

t.test('copying continues while ClickHouse has no time to remove settled changes', async (t) => {
  const { clickhouse, ...shard } = await openShard(t)
  await clickhouse.command(
    `INSERT INTO event_changes (project_id, id, kind, scope, state, noted_at)
     SELECT 'old', generateUUIDv4(), 'calls', '{"keys":null}', 3, now64(3) - 3600`,
  )
  const countMutations = async () => {
    return (await clickhouse.rows("SELECT 1 FROM system.mutations WHERE table = 'event_changes' AND NOT is_done"))
      .length
  }
  // As if its threads were busy with merges.
  await clickhouse.command('SYSTEM STOP MERGES event_changes')
  for (let i = 1; i <= 2; i++) {
    await shard.store('a', some(10))
    const copier = shard.copier({ log: silent })
    await until('the facts', async () => (await shard.countFacts()) === 10 * i)
    await until('a removal', async () => (await countMutations()) > 0)
    await wait(100)
    await copier.close()
  }
  t.equal(await countMutations(), 1, 'removals do not pile up')
  await clickhouse.command('SYSTEM START MERGES event_changes')
  await until('the removal', async () => {
    return (
      (await clickhouse.rows("SELECT 1 FROM event_changes WHERE project_id = 'old' AND kind = 'calls'")).length === 0
    )
  })
})

t.test('a leader and a change from before the clock was set back do not stop the others', async (t) => {
  const { clickhouse, ...shard } = await openShard(t)
  await shard.store('a', some(10))
  const first = shard.copier()
  await shard.complete(['a'])
  await first.close()
  // According to their clock, their processes died an hour from now.
  await clickhouse.command(
    `INSERT INTO facts_state
     SELECT * REPLACE (version + 1 AS version, {process:UUID} AS leader, 1 AS is_leading, now64(3) + 3600 AS written_at)
     FROM facts_state ORDER BY version DESC LIMIT 1`,
    { process: randomUUID() },
  )
  for (const state of [0, 1]) {
    await clickhouse.command(
      `INSERT INTO event_changes (project_id, id, kind, scope, state, noted_at)
       SELECT 'a', generateUUIDv4(), 'users', '{"users":[]}', ${state}, now64(3) + 3600`,
    )
  }
  await shard.store('a', some(10))
  shard.copier({ isShared: true, abandonedMs: 100 })
  await shard.complete(['a'])
  t.equal(await shard.countDifferences(), 0)
})

t.test('a leader renews its lead during a long statement, even before it has taken over', async (t) => {
  const { clickhouse, ...shard } = await openShard(t)
  const proxy = await TcpProxy.open(t, shard.url)
  const proxied = new ClickHouse({ url: proxy.url })
  t.teardown(() => proxied.close())
  await shard.store('a', some(10))
  const written = async () => {
    const [row] = await clickhouse.rows<{ at: string }>('SELECT max(written_at) AS at FROM facts_state')
    return row?.at
  }
  let { held, release } = proxy.hold('TRUNCATE TABLE event_facts')
  shard.copier({ clickhouse: proxied, isShared: true })
  for (const next of ['INSERT INTO event_facts', null]) {
    await held
    const before = await written()
    await until('a later note', async () => (await written()) !== before)
    const earlier = release
    if (next !== null) ({ held, release } = proxy.hold(next))
    await earlier()
  }
  await shard.complete(['a'])
  t.equal(await readEpoch(clickhouse), 1)
})
