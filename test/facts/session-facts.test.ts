import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { StoreError, StoreTimeoutError, StoreUnreachableError } from '../../src/clickhouse/errors.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { parseEventId } from '../../src/model/event-id.js'
import type { Session } from '../../src/model/session.js'
import { SessionFactsSource } from '../../src/questions/session-facts-source.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { deleteEventsOfBatches } from '../../src/store/batches.js'
import { noteCalls, requestFacts } from '../../src/store/event-changes.js'
import { EventEdits } from '../../src/store/event-edits.js'
import { deleteEventsBefore, deleteEventsOfUsers } from '../../src/store/events.js'
import { deleteExpiredSessions } from '../../src/store/expiry.js'
import { FactLead } from '../../src/store/fact-lead.js'
import { compareWithPoint, readFactsPoint } from '../../src/store/fact-points.js'
import { purgeOldRows } from '../../src/store/rewrite.js'
import {
  readSessionDays,
  requestSessionFacts,
  type SessionDay,
  type SessionFactsMaker,
} from '../../src/store/session-facts.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { dataFolder, silent, startClickHouse, unnoted, until } from '../helper.js'
import { COMPARED, openMaker, selectSessions } from './session-maker.js'
import { openShard, type StoredEvent } from './shard.js'

const DAY_MS = 86_400_000
const UNINTERRUPTED = new AbortController().signal
const TODAY = Math.floor(Date.now() / DAY_MS)
const FIRST = TODAY - 11
/** Short pauses, so that fills are soon seen to be complete. */
const OFTEN = { pauseMs: 100, sessionsPace: { everyMs: 300, pauseFactor: 0 } }

/** Events of one session with three events on each of these days. */
function visits(days: readonly number[], name = 's'): StoredEvent[] {
  return days.flatMap((day) =>
    [0, 1, 2].map((i) => ({
      event: 'page_view',
      distinct_id: `user ${(day - FIRST) % 3}`,
      timestamp: day * DAY_MS + 43_200_000 + i * 1000,
      properties: '{"path":"/a"}',
      session_id: `${name} ${day}`,
    })),
  )
}

function call(distinctId: string, day: number): Session {
  const at = day * DAY_MS + 1000
  const times = { startedAt: at, updatedAt: at, endedAt: null }
  return { distinctId, state: 'active', properties: new Map(), duration: null, context: {}, ...times }
}

const DAYS = Array.from({ length: 12 }, (_, i) => FIRST + i)

/** Days whose sessions may include events of a day. */
const around = (day = FIRST) => [day - 2, day - 1, day, day + 1]

/** Settings that the rows depend on besides events and calls; a test may change them. */
interface Definition {
  number: number
  since: number | null
  /** whether the parser rejects a text */
  rejects: boolean
}

/** A maker whose statements fail without a limit of their time and memory. */
function openLimitedMaker(definition: Definition): SessionFactsMaker {
  const parts = { define: () => String(definition.number), since: () => definition.since }
  const plain = openMaker(parts)
  return {
    ...plain,
    select: async (projectId, range) => {
      const { sql, ...rest } = await plain.select(projectId, range)
      const isRejected = definition.rejects && !range.repairsTexts
      const isUnlimited = "getSetting('max_execution_time') = 0 OR getSetting('max_memory_usage') = 0"
      return { sql: `SELECT * FROM (${sql}) WHERE throwIf(${isUnlimited} OR ${isRejected}) = 0`, ...rest }
    },
  }
}

async function open(t: Test, engine?: { url: string }) {
  const definition: Definition = { number: 1, since: null, rejects: false }
  const maker = openLimitedMaker(definition)
  const shard = await openShard(t, engine)
  const { clickhouse } = shard
  const ids = await shard.store('a', visits(DAYS))
  const covered = async () => {
    const days = await readSessionDays(clickhouse, 'a')
    return days.flatMap(({ day, ...row }) => (row.definition === `${definition.number}` ? [day] : []))
  }
  /** Days without events and calls need no rows. */
  const isWhole = async (days: readonly number[]) => {
    const rows = await clickhouse.rows<{ day: number }>(
      `SELECT DISTINCT toInt32(day) AS day FROM event_facts WHERE project_id = 'a'
       UNION DISTINCT SELECT toInt32(intDiv(started_at, ${DAY_MS})) FROM sessions WHERE project_id = 'a' AND is_deleted = 0`,
    )
    const found = await covered()
    return (
      found.every((day) => days.includes(day)) && rows.every(({ day }) => !days.includes(day) || found.includes(day))
    )
  }
  return {
    ...shard,
    ids,
    definition,
    covered,
    /** Waits until exactly these days have rows, and compares the rows. */
    async settled(title: string, days: readonly number[] = DAYS) {
      await shard.complete(['a'])
      await until(`the days ${title}`, () => isWhole(days))
      t.equal(await countWrong(clickhouse), 0, title)
    },
    copier: (options: Parameters<typeof shard.copier>[0] = {}) =>
      shard.copier({ ...OFTEN, sessions: maker, ...options }),
    countRows: async (which = '1') => {
      const [row] = await clickhouse.rows<{ count: string }>(
        `SELECT count() AS count FROM session_facts WHERE ${which}`,
      )
      return Number(row?.count)
    },
  }
}

/** The number of matching rows that questions read. */
async function countCurrent(clickhouse: ClickHouse, which: string): Promise<number> {
  const days = await readSessionDays(clickhouse, 'a')
  const fills = days.map(({ day, fill }) => `(${day}, ${fill})`)
  const [found] = await clickhouse.rows<{ count: string }>(
    `SELECT count() AS count FROM session_facts WHERE (toInt32(day), fill) IN (${fills.join(', ')}) AND ${which}`,
  )
  return Number(found?.count)
}

/** The number of sessions of covered days (of each definition), unchanged since, without an equal row, and of rows without a session. */
async function countWrong(clickhouse: ClickHouse): Promise<number> {
  for (;;) {
    const days = await readSessionDays(clickhouse, 'a')
    const count = await countWrongOf(clickhouse, days)
    // On a busy machine, the rows of a day that was voided in between may already be gone.
    if (JSON.stringify(await readSessionDays(clickhouse, 'a')) === JSON.stringify(days)) return count
  }
}

async function countWrongOf(clickhouse: ClickHouse, days: readonly SessionDay[]): Promise<number> {
  if (days.length === 0) return 0
  const rows = days.map(({ day, fill, step, calls }) => `(toDate32(${day}), ${fill}, ${step}, ${calls})`)
  const [found] = await clickhouse.rows<{ count: string }>(`
    WITH covered AS (
      SELECT of_day.1 AS day, of_day.2 AS newest, of_day.3 AS reach, of_day.4 AS called
      FROM (SELECT arrayJoin([${rows.join(', ')}]) AS of_day)
    ), made AS (${selectSessions('a', { from: 0, to: (TODAY + 10) * DAY_MS })})
    SELECT count() AS count FROM (
      SELECT newest, h, sum(sign) AS difference FROM (
        SELECT cityHash64(${COMPARED.map((name) => `session_facts.${name}`).join()}) AS h, newest, 1 AS sign
        FROM session_facts INNER JOIN covered
          ON session_facts.day = covered.day AND session_facts.fill = covered.newest
        WHERE project_id = 'a' AND (key, newest) NOT IN (
          SELECT key, newest FROM made INNER JOIN covered ON made.day = covered.day
          WHERE last_step > reach OR last_call > called
        )
        UNION ALL
        SELECT cityHash64(${COMPARED.map((name) => `made.${name}`).join()}) AS h, newest, -1 AS sign
        FROM made INNER JOIN covered ON made.day = covered.day
        WHERE last_step <= reach AND last_call <= called
      ) GROUP BY newest, h HAVING difference != 0
    )`)
  return Number(found?.count)
}

t.test('rows follow every change, and days are void before the facts change that they were made from', async (t) => {
  const shard = await open(t)
  const { clickhouse, definition, ids, covered, settled } = shard
  const proxy = await TcpProxy.open(t, shard.url)
  const proxied = new ClickHouse({ url: proxy.url })
  t.teardown(() => proxied.close())
  shard.copier({ clickhouse: proxied })
  await shard.complete(['a'])
  const reader = new FactsReader(shard.shards, [])
  await reader.noteSessions('a', { isUsed: false, isSlow: true })
  const countKnown = async () => {
    const point = await reader.point('a', shard.appended)
    t.ok(point && (await reader.stillHolds('a', point, false)))
    return point?.sessionDays.length
  }
  t.equal(await countKnown(), 0)
  t.strictSame(await covered(), [], 'nobody has asked')
  await requestSessionFacts(clickhouse, 'a')
  await settled('after the first fill')
  t.equal(await shard.countRows(), DAYS.length)
  const [first] = await readSessionDays(clickhouse, 'a')
  t.ok(first && first.step > 0 && BigInt(first.calls) > 0n && BigInt(first.fill) > 0n, JSON.stringify(first))
  await until('a reader to know the days', async () => (await countKnown()) === DAYS.length)

  const edits = new EventEdits(shard.shards, unnoted)
  const edit = (day: number, properties: string | null) =>
    edits.apply({ projectId: 'a', eventId: ids[3 * day] ?? '', properties })
  const wrong = await shard.store('a', visits([TODAY - 4], 'wrong'))
  const replay = shard.skip('a', visits([TODAY - 3], 'late'))
  await shard.store('a', visits([TODAY], 'more'))
  const undo = parseEventId(wrong[0] ?? '')
  if (!undo) throw new Error('no place')
  const rewrite = 'DELETE FROM event_facts WHERE ('
  const remove = 'DELETE FROM event_facts WHERE project_id'
  const changes: [string, string, readonly number[], () => Promise<unknown>][] = [
    ['an edit', rewrite, around(DAYS[6]), () => edit(6, '{}')],
    ['a deleted event', rewrite, around(DAYS[9]), () => edit(9, null)],
    ['an undone import', remove, around(TODAY - 4), () => deleteEventsOfBatches(shard.shards, 'a', [undo], unnoted)],
    ['a replay', rewrite, around(TODAY - 3), replay],
    ['an erasure', remove, DAYS, () => deleteEventsOfUsers(clickhouse, 'a', ['user 1'])],
    ['expiry', remove, around(FIRST), () => deleteEventsBefore(clickhouse, 'a', (DAYS[2] ?? 0) * DAY_MS)],
    ['a rebuild', 'TRUNCATE TABLE event_facts', DAYS, () => requestFacts(clickhouse, 'rebuild', '')],
    ['leaving it out', remove, DAYS, () => requestFacts(clickhouse, 'leave_out', 'a')],
  ]
  for (const [name, statement, days, change] of changes) {
    const { held, release } = proxy.hold(statement)
    await change()
    await held
    const left = (await covered()).filter((day) => days.includes(day))
    t.strictSame(left, [], `${name} touches days`)
    t.equal(await countWrong(clickhouse), 0, `${name} has changed nothing of other days`)
    await release()
    if (name === 'leaving it out') await until('no rows', async () => (await shard.countRows()) === 0)
    // No earlier events are left.
    else await settled(`after ${name}`, name === 'expiry' ? DAYS.slice(2) : undefined)
  }
  t.strictSame(await covered(), [])
  await requestFacts(clickhouse, 'take_in', 'a')
  await settled('after it was taken in')

  const lateCall = await shard.skipCall('a', 'called late', call('user 2', TODAY - 3))
  await shard.call('a', 'called', call('a person', TODAY - 3))
  definition.number++
  await settled('of another definition')
  const isLate = "session_id = 'called late'"
  t.equal(await shard.countRows(isLate), 0)
  t.strictSame(await lateCall(), { isStored: true })
  await settled('with a call that was stored late')
  t.equal(await shard.countRows(isLate), 1)

  const isOfCall = "(session_id = 'called' OR distinct_id = 'a person')"
  const findLast = async () => {
    const days = await readSessionDays(clickhouse, 'a')
    return Math.max(...days.map(({ fill }) => Number(fill)))
  }
  const waitForErasure = async (what: string, which: string) => {
    const last = await findLast()
    return async () => {
      await settled(what)
      t.equal(await shard.countRows(`${which} AND fill <= ${last}`), 0, `nothing is left on the disk ${what}`)
    }
  }
  t.ok((await shard.countRows(isOfCall)) > 0)
  const isErased = await waitForErasure('of a user who has no events', isOfCall)
  await deleteEventsOfUsers(clickhouse, 'a', ['a person'])
  await isErased()
  t.ok((await shard.countRows(isOfCall)) > 0, 'whose call is still there')
  await shard.call('a', 'called', null)
  t.ok((await shard.countRows(isOfCall)) > 0, 'its version says that it may not be read')
  const isDeleted = await waitForErasure('of a call', isOfCall)
  await purgeOldRows(clickhouse, shard.shards, 'sessions', UNINTERRUPTED)
  await isDeleted()
  t.equal(await shard.countRows(isOfCall), 0)
  const areAll = await waitForErasure('of any call', '1')
  await noteCalls(clickhouse, 'a', { keys: null })
  await areAll()
  const areReplaced = await waitForErasure('of damaged rows', '1')
  await noteCalls(clickhouse, '', { keys: null })
  await areReplaced()
  t.equal(await deleteExpiredSessions(clickhouse, 'a', (TODAY - 2) * DAY_MS, UNINTERRUPTED), 1)
  await settled('without a call that has expired')
  t.equal(await countCurrent(clickhouse, isLate), 0)

  definition.since = (DAYS[4] ?? 0) * DAY_MS + 1
  await settled('of which nothing can expire', DAYS.slice(6))
  definition.rejects = true
  definition.number++
  await settled('of which nothing can expire, with texts that were repaired', DAYS.slice(6))

  await deleteEventsBefore(clickhouse, 'a', null)
  await until('nothing is left of the project', async () => (await shard.countRows('events > 0')) === 0)
})

t.test('the next leader continues, and rows of one that was lost while it made them are never read', async (t) => {
  const shard = await open(t)
  const { clickhouse, ids, settled } = shard
  await requestSessionFacts(clickhouse, 'a')
  for (const statement of ['INSERT INTO session_facts (', 'INSERT INTO session_fact_days']) {
    const proxy = await TcpProxy.open(t, shard.url)
    const proxied = new ClickHouse({ url: proxy.url })
    t.teardown(() => proxied.close())
    const { held, release } = proxy.hold(statement)
    const late = shard.copier({ clickhouse: proxied, log: silent })
    await held
    const next = shard.copier()
    await settled(`while one waits for ${statement}`)
    const rows = await shard.countRows()
    const before = await readSessionDays(clickhouse, 'a')
    await release()
    await late.close()
    t.strictSame(await readSessionDays(clickhouse, 'a'), before)
    t.equal(await shard.countRows(), rows)
    t.equal(await countWrong(clickhouse), 0)
    await next.close()
    // So that something has to be filled again.
    await requestFacts(clickhouse, 'rebuild', '')
  }

  const last = shard.copier()
  await settled('after a rebuild')
  await last.close()
  await deleteEventsOfUsers(clickhouse, 'a', ['user 1'])
  t.ok((await shard.countRows("distinct_id = 'user 1'")) > 0)
  const next = shard.copier()
  await settled('after an erasure that the former leader did not see')
  t.equal(await shard.countRows("distinct_id = 'user 1'"), 0, 'nothing is left on the disk')
  await new EventEdits(shard.shards, unnoted).apply({ projectId: 'a', eventId: ids[0] ?? '', properties: '{}' })
  await settled('after an edit')
  await next.close()

  const count = async (table: string) => {
    const [row] = await clickhouse.rows<{ count: string }>(`SELECT count() AS count FROM ${table}`)
    return Number(row?.count)
  }
  const days = (await readSessionDays(clickhouse, 'a')).length
  t.ok((await count('session_fact_days')) > days, 'there are old days')
  const rows = await shard.countRows()
  t.ok(rows > days, 'and old rows')
  const lead = await FactLead.take(clickhouse, {
    ...{ process: crypto.randomUUID(), isShared: false, log: silent, signal: UNINTERRUPTED },
  })
  await lead?.sessions.prune(600)
  t.equal(await shard.countRows(), rows, 'questions may still read them')
  for (let i = 0; i < 2; i++) {
    await lead?.sessions.prune(0)
    await until('old rows to be removed', async () => (await shard.countRows()) === days)
    t.equal(await count('session_fact_days'), days)
    t.equal(await count('session_facts_asked'), 1)
    t.equal(await countWrong(clickhouse), 0)
  }
  await lead?.sessions.void('a')
  // As if all threads of ClickHouse were busy with merges.
  await clickhouse.command('SYSTEM STOP MERGES session_facts')
  const countMutations = async () => (await clickhouse.rows('SELECT 1 FROM system.mutations WHERE NOT is_done')).length
  for (let i = 0; i < 2; i++) {
    await lead?.sessions.prune(0)
    t.equal(await countMutations(), 1, 'nobody waits, and they do not pile up')
  }
  t.equal(await shard.countRows(), days)
  await clickhouse.command('SYSTEM START MERGES session_facts')
  await until('void rows to be removed', async () => (await shard.countRows()) === 0)
  t.equal(await count('session_fact_days'), 0)
})

t.test('an erasure of many names leaves nothing of a session that another user continued for days', async (t) => {
  const shard = await openShard(t)
  const { clickhouse, shards } = shard
  const days = DAYS.slice(0, 6)
  const visit = (distinct_id: string, day: number): StoredEvent => ({
    event: '$pageview',
    distinct_id,
    timestamp: day * DAY_MS + 43_200_000,
    properties: JSON.stringify({ url: `https://shop.example/users/${distinct_id}` }),
    session_id: 'shared',
  })
  await shard.store(
    'a',
    days.map((day, i) => visit(i === 0 ? 'alice' : 'bob', day)),
  )
  const sessions = new SessionFactsSource({
    shards,
    facts: { readColumns: async () => new Set() },
    getSettings: () => DEFAULT_SETTINGS,
    getExpiry: () => null,
  })
  shard.copier({ ...OFTEN, sessions })
  await shard.complete(['a'])
  await requestSessionFacts(clickhouse, 'a')
  const read = () => clickhouse.rows('SELECT * FROM session_facts')
  await until('rows of all days', async () => (await read()).length === days.length)
  const others = Array.from({ length: 6_000 }, (_, i) => `alice ${i}`)
  await deleteEventsOfUsers(clickhouse, 'a', ['alice', ...others])
  await shard.complete(['a'])
  t.notMatch(JSON.stringify(await read()), /alice/)
})

t.test('rows that a former leader removes late are filled again', async (t) => {
  const shard = await open(t)
  await requestSessionFacts(shard.clickhouse, 'a')
  const proxy = await TcpProxy.open(t, shard.url)
  const proxied = new ClickHouse({ url: proxy.url })
  t.teardown(() => proxied.close())
  const { held, release } = proxy.hold('TRUNCATE TABLE session_facts')
  const late = shard.copier({ clickhouse: proxied, log: silent })
  await held
  shard.copier()
  await shard.settled('by the next leader')
  await release()
  await late.close()
  await shard.settled('again')
})

t.test('when ClickHouse starts, it is forgotten which days have rows', async (t) => {
  const path = join(await dataFolder(t), 'clickhouse')
  const engine = await startClickHouse(t, path)
  const first = await open(t, engine)
  const copier = first.copier()
  await requestSessionFacts(first.clickhouse, 'a')
  await first.settled('before the start')
  await copier.close()
  await first.clickhouse.close()
  await engine.close()

  const second = await openShard(t, await startClickHouse(t, path))
  const { clickhouse } = second
  const count = async () => {
    const [row] = await clickhouse.rows<{ count: string }>('SELECT count() AS count FROM session_facts')
    return Number(row?.count)
  }
  t.ok((await count()) > 0, 'there are rows')
  t.strictSame(await readSessionDays(clickhouse, 'a'), [])
  second.copier({ ...OFTEN, sessions: openMaker() })
  await until('rows that nobody knows are removed', async () => (await count()) === 0)
  await requestSessionFacts(clickhouse, 'a')
  await until('the days', async () => (await readSessionDays(clickhouse, 'a')).length === DAYS.length)
  t.equal(await countWrong(clickhouse), 0)
})

t.test('fills that are too large are split, and a day that fails alone is left out', async (t) => {
  const shard = await open(t)
  const small = shard.open()
  const command = small.command.bind(small)
  let failures = 0
  const bad = (DAYS[5] ?? 0) * DAY_MS
  // As if ClickHouse had memory for two days at a time, and not enough for one of the days.
  small.command = async (query, ...rest) => {
    const [, from, to] = (/HAVING start >= (\d+) AND start < (\d+)/.exec(query) ?? []).map(Number)
    if (from !== undefined && to !== undefined) {
      if (to - from > 2 * DAY_MS || (from <= bad && to > bad)) {
        failures++
        throw new StoreError(241, 'Query memory limit exceeded')
      }
    }
    await command(query, ...rest)
  }
  const warned: string[] = []
  const tooMany: number[] = []
  const log = {
    info: ({ days }: { days?: number }) => void (days && tooMany.push(days)),
    warn: ({ day }: { day: string }) => void warned.push(day),
  }
  shard.copier({ clickhouse: small, log })
  await requestSessionFacts(shard.clickhouse, 'a')
  await shard.settled(
    'but one',
    DAYS.filter((day) => day !== DAYS[5]),
  )
  t.strictSame(warned, [new Date(bad).toISOString().slice(0, 10)])
  t.ok(failures <= 5, `${failures} failures`)
  t.ok(tooMany.length > 0, 'failures of several days are logged, too')
})

t.test('a fill that was interrupted is soon tried again', async (t) => {
  const shard = await openShard(t)
  await shard.store('a', visits([TODAY]))
  const interrupted = shard.open()
  const command = interrupted.command.bind(interrupted)
  const errors = [
    // ClickHouse has started in the meantime
    new StoreUnreachableError('the connection was lost'),
    new StoreError(236, 'Server is shutting down'),
    // a ClickHouse that hangs
    new StoreTimeoutError('ClickHouse did not respond in time'),
    // a column that was dropped in the meantime
    new StoreError(47, 'Unknown identifier'),
  ]
  interrupted.command = async (query, ...rest) => {
    const error = query.startsWith('INSERT INTO session_facts (') && errors.pop()
    if (error) throw error
    await command(query, ...rest)
  }
  shard.copier({ ...OFTEN, clickhouse: interrupted, sessions: openMaker(), log: silent })
  await requestSessionFacts(shard.clickhouse, 'a')
  await until('the day', async () => (await readSessionDays(shard.clickhouse, 'a')).length === 1)
  t.equal(errors.length, 0)
})

t.test('a project whose days cannot be counted does not hold up the others', async (t) => {
  const shard = await openShard(t)
  for (const project of ['slow', 'a']) await shard.store(project, visits([TODAY]))
  const slow = shard.open()
  const rows = slow.rows.bind(slow)
  slow.rows = async (query, parameters, ...rest) => {
    if (query.includes('AS missed') && parameters?.project === 'slow') {
      throw new StoreTimeoutError('ClickHouse did not respond in time')
    }
    return await rows(query, parameters, ...rest)
  }
  await requestSessionFacts(shard.clickhouse, 'slow')
  shard.copier({ ...OFTEN, clickhouse: slow, sessions: openMaker(), log: silent })
  await shard.complete(['slow', 'a'])
  const [before] = await shard.clickhouse.rows('SELECT max(epoch) AS epoch FROM facts_state')
  await requestSessionFacts(shard.clickhouse, 'a')
  await until('the other project', async () => (await readSessionDays(shard.clickhouse, 'a')).length === 1)
  const [after] = await shard.clickhouse.rows('SELECT max(epoch) AS epoch FROM facts_state')
  t.strictSame(after, before, 'the same process leads')
})

t.test('whatever changes, the rows of a day match the facts that the day claims to include', async (t) => {
  const shard = await open(t)
  const { clickhouse } = shard
  const ids = [...shard.ids]
  await requestSessionFacts(clickhouse, 'a')
  const readings = { held: 0, moved: 0 }
  let isOver = false
  const read = async () => {
    while (!isOver) {
      const { point, isOpen } = await readFactsPoint(clickhouse, 'a')
      if (!point || isOpen) {
        await wait(10)
        continue
      }
      const wrong = await countWrong(clickhouse)
      const isSame = (await compareWithPoint(clickhouse, 'a', point)) === 'same' && !point.isStepping
      readings[isSame ? 'held' : 'moved']++
      if (isSame && wrong > 0) t.fail(`${wrong} wrong rows`)
    }
  }
  const edits = new EventEdits(shard.shards, unnoted)
  // Copiers that replace one another.
  let copier = shard.copier()
  const reading = read()
  for (let i = 0; i < 15; i++) {
    const day = DAYS[(i * 7) % DAYS.length] ?? TODAY
    const eventId = ids[(i * 13) % ids.length] ?? ''
    if (i % 5 === 0) ids.push(...(await shard.store('a', visits([day, day + 1], `s${i % 3}`))))
    if (i % 5 === 1) await edits.apply({ projectId: 'a', eventId, properties: `{"i":${i}}` })
    if (i % 5 === 2) await edits.apply({ projectId: 'a', eventId, properties: null })
    if (i % 5 === 3) await shard.call('a', `called ${i % 4}`, i % 2 === 0 ? null : call(`user ${i % 3}`, day))
    if (i % 10 === 4) await deleteEventsOfUsers(clickhouse, 'a', [`user ${1 + (i % 2)}`])
    if (i === 9) await requestFacts(clickhouse, 'rebuild', '')
    if (i === 12) {
      const last = copier
      copier = shard.copier({ isShared: false })
      await last.close()
    }
    const { held } = readings
    // Most reads happen while something is changing.
    if (i % 4 === 3) await until('a reading', () => readings.held > held)
  }
  await shard.complete(['a'])
  await until('the days', async () => {
    const covered = await shard.covered()
    const [left] = await clickhouse.rows<{ count: string }>(
      'SELECT count() AS count FROM event_facts WHERE toInt32(day) <= {today:Int32} AND toInt32(day) NOT IN {days:Array(Int32)}',
      { today: TODAY, days: covered },
    )
    return left?.count === '0'
  })
  isOver = true
  await reading
  t.equal(await countWrong(clickhouse), 0)
  t.ok(readings.held >= 3, JSON.stringify(readings))
})
