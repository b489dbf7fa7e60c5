import t from 'tap'
import { command } from '../../src/cli/verify/command.js'
import { openWholeStore } from '../../src/cli/whole-store.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { countDeadLetters } from '../../src/store/dead-letters.js'
import { claimJobTurn } from '../../src/store/job-turns.js'
import { run } from '../cli/lanes-store.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { fromServer, settingsFor, startApp, startService, until } from '../helper.js'

const DAY_MS = 86_400_000
const NOTE = 'INSERT INTO deleted_events'
/** A part of the row that records the end of a deletion. */
const SETTLED = '"pending":0'
/** Number of old events that are added at once, in the store and in dead letters. */
const OLD = 30
const OLD_IN_LETTERS = 3

/**
 * Where a run is killed: before a statement, or before its reply. Each run continues with what the previous one has
 * left, if anything.
 */
const STEPS = [
  { title: 'before dead letters are deleted', text: NOTE, needsMore: true },
  { title: 'after dead letters were deleted', text: 'ALTER TABLE dead_letters DELETE', isCarriedOut: true },
  { title: 'after a dead letter was replaced', text: 'INSERT INTO dead_letters', isCarriedOut: true },
  { title: 'before ClickHouse deletes events', text: 'DELETE FROM events', isLate: true },
  { title: 'after events were deleted', text: 'DELETE FROM events', isCarriedOut: true, needsMore: true },
  { title: 'before the note that an interrupted deletion is over', text: SETTLED },
]

t.test('the ledger is exact after a removal of expired data was killed at any step', async (t) => {
  const env = await settingsFor(t, 'servers')
  const client = await startApp(t, env)
  const { lanes, shards, close } = await openWholeStore(client.config, { mustExist: true })
  t.teardown(close)
  const proxy = await TcpProxy.open(t, env.CLICKHOUSE_URL ?? '')
  const ok = async (...args: Parameters<typeof client.call>) => {
    const response = await client.call(...args)
    if (response.statusCode !== 200) throw new Error(`${args[1]}: ${response.body}`)
  }
  const check = async (title: string, args = ['--quick']) => {
    const { code, printed } = await run(command, args, env)
    t.equal(code, 0, `${title}: ${printed}`)
    const line = printed.split('\n').find((text) => text.includes('Ledger: default: ')) ?? ''
    t.match(line, /received = \d+ stored .* 0 waiting\.$/, title)
    return line
  }
  const old = { event: 'old', distinct_id: 'u', timestamp: Date.now() - 40 * DAY_MS }
  /** One that is old as a whole, and one with an old event. ClickHouse cannot read the time of its other event. */
  const addDeadLetters = async () => {
    const unreadable = { event: 'unreadable', distinct_id: 'u', timestamp: 'now' }
    const write = async (events: object[]) => {
      const body = Buffer.from(JSON.stringify({ events }))
      const written = await lanes[0]?.journal.write([
        { type: 'append', ...fromServer('default'), count: 2, body, ids: NO_IDS },
      ])
      t.match(written, [{ status: 'done' }])
    }
    const before = await countDeadLetters(shards)
    await write([{ ...unreadable, event: 'received long ago' }, unreadable])
    await write([old, unreadable])
    await until('the dead letters', async () => (await countDeadLetters(shards)) === before + 2)
    await shards.first.command(
      `ALTER TABLE dead_letters UPDATE received_at = ${Date.now() - 40 * DAY_MS} WHERE position(body, 'received long ago') > 0`,
      {},
      { mutations_sync: '1' },
    )
  }
  /** As if the last run had been an hour ago. */
  const allowRun = async () => {
    await shards.first.command('TRUNCATE TABLE turns')
    await claimJobTurn(shards, 'retention', Date.now() - 3_600_000)
  }
  let added = 0
  const add = async () => {
    await ok('PATCH', '/public/project', { keep: null })
    await ok('POST', '/public/track/batch', { events: Array.from({ length: OLD }, () => old) })
    await ok('POST', '/public/track', { event: 'new', distinct_id: 'u' })
    await until('the events', async () => (await client.events()).length >= OLD)
    await addDeadLetters()
    added++
    await ok('PATCH', '/public/project', { keep: { events: '30d' } })
  }
  for (const { title, text, isCarriedOut = false, isLate = false, needsMore = false } of STEPS) {
    if (needsMore) await add()
    await allowRun()
    const { held, release } = isCarriedOut
      ? { held: proxy.loseReply(text, 'silence'), release: async () => undefined }
      : proxy.hold(text)
    const service = await startService(t, { ...env, CLICKHOUSE_URL: proxy.url })
    await held
    service.process.kill('SIGKILL')
    await service.ended
    await check(title)
    if (isLate) await release()
  }
  await allowRun()
  await startApp(t, env)
  await until('the note that everything is deleted', async () => {
    const pending = await shards.first.rows('SELECT 1 FROM deleted_events FINAL WHERE pending > 0')
    return pending.length === 0
  })
  t.match(await check('at the end', []), ` ${added * (OLD + OLD_IN_LETTERS)} deleted +`)
})
