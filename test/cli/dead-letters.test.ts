import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { command } from '../../src/cli/dead-letters.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { replayDeadLetter } from '../../src/ingest/replay.js'
import { formatEventId } from '../../src/model/event-id.js'
import { formatPosition, type Position } from '../../src/model/position.js'
import { insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { startClickHouse } from '../helper.js'
import { NO_FULL_DISK, runOnFullDisk } from './command-line.js'

t.test('tallyhouse dead-letters', async (t) => {
  const JOURNAL = 7
  const engine = await startClickHouse(t)
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  const shards = Shards.of(clickhouse)

  let clock = 1_760_000_000_000n

  /** A dead letter with this body, as the writer stores it. */
  async function letter(
    body: string | Buffer,
    kind: 'events' | 'profiles' = 'events',
    journalId = JOURNAL,
  ): Promise<string> {
    const position: Position = ++clock << 16n
    const projectId = kind === 'events' ? 'p' : ''
    const entry = { position, kind, projectId, count: 1, receivedAt: Number(clock), body: Buffer.from(body) }
    await insertDeadLetter(
      clickhouse,
      journalId,
      entry,
      `ClickHouse error 27: \u001b[31m${body}\nand more`,
      `${position}`,
    )
    return formatPosition(position)
  }

  async function run(...args: string[]) {
    const stdout = new PassThrough()
    const stderr = new PassThrough()
    const env = { CLICKHOUSE_URL: engine.url }
    const io = { env, stdin: Readable.from([]), stdout, stderr, signal: new AbortController().signal }
    const code = await command.run(args, io)
    const all = (stream: PassThrough) => (stream.read() as Buffer | null) ?? Buffer.alloc(0)
    const bytes = all(stdout)
    return { code, bytes, output: bytes.toString(), messages: all(stderr).toString() }
  }

  async function listed(): Promise<string[]> {
    const { output } = await run('list', '--json')
    return output
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).id)
  }

  async function stored() {
    return await clickhouse.rows<{ id: string; event: string; properties: string }>(
      `SELECT toString(event_id) AS id, event, properties FROM events WHERE project_id = 'p' ORDER BY toUInt128(event_id)`,
    )
  }

  const idOf = (letterId: string, index = 0) => {
    const [ms = '', sequence = ''] = letterId.split('-')
    return formatEventId({ position: (BigInt(ms) << 16n) | BigInt(sequence), index, journalId: JOURNAL })
  }

  t.test('dead letters', async (t) => {
    t.strictSame(await listed(), [], 'there are none to begin with')

    const good = await letter(
      '{"events":[{"event":"a","distinct_id":"u","properties":{"x":1.0}},{"event":"b","distinct_id":"u"}]}',
    )
    const twice = await letter('{"events":[{"event":"x","event":"c","distinct_id":"u"}]}')
    const bad = await letter(Buffer.from([0x7b, 0xff, 0x00, 0x0a]))
    const profile = await letter(
      '{"project_id":"p","distinct_id":"ada","properties":"{}","created_at":1,"updated_at":2,"is_deleted":0}',
      'profiles',
    )

    await t.test('are listed, oldest first, without control characters', async (t) => {
      t.strictSame(await listed(), [good, twice, bad, profile])
      const { output, code } = await run('list')
      t.equal(code, 0)
      t.match(output, new RegExp(`${good} .*events .* p\\n {2}ClickHouse error 27`))
      t.notOk(output.includes('\u001b'))
      const limited = await run('list', '--limit', '1')
      t.equal(limited.output.split('\n').filter((line) => /^\d/.test(line)).length, 1)
      t.match(limited.messages, /^3 more/m)
    })

    await t.test('are shown byte for byte', async (t) => {
      t.strictSame((await run('show', bad)).bytes, Buffer.from([0x7b, 0xff, 0x00, 0x0a]))
    })

    await t.test('are replayed under the ids of their position, and not offered again', async (t) => {
      const { code, output } = await run('replay', good)
      t.strictSame([code, output], [0, '1 stored, 0 still refused.\n'])
      t.strictSame(await stored(), [
        { id: idOf(good), event: 'a', properties: '{"x":1.0}' },
        { id: idOf(good, 1), event: 'b', properties: '{}' },
      ])
      t.strictSame(await listed(), [twice, bad, profile])
      await t.rejects(run('replay', good), /No dead letter \S+ is waiting/)
    })

    await t.test('stay if they are still refused, and do not block others', async (t) => {
      const { code, output, messages } = await run('replay', '--all')
      t.strictSame([code, output], [1, '2 stored, 1 still refused.\n'])
      t.match(messages, new RegExp(`${bad} {2}still refused: `))
      t.strictSame(await listed(), [bad])
      t.strictSame(
        (await stored()).map(({ event }) => event),
        ['a', 'b', 'c'],
      )
      t.match(await clickhouse.rows('SELECT distinct_id, version FROM profiles FINAL'), [{ distinct_id: 'ada' }])
    })
  })

  t.test('a replay that was interrupted, or runs twice concurrently, stores nothing twice', async (t) => {
    const id = await letter('{"events":[{"event":"once","distinct_id":"u"}]}')
    const [found] = (await readDeadLetters(shards, { limit: 100 })).filter(
      ({ position }) => formatPosition(position) === id,
    )
    if (!found) return t.fail('it is there')
    await Promise.all([1, 2, 3].map((now) => replayDeadLetter(shards, found, now)))
    const count = async () => (await stored()).filter(({ event }) => event === 'once').length
    t.equal(await count(), 1)
    // Simulates a replay that was not recorded, with a forgotten token.
    await clickhouse.command('TRUNCATE TABLE dead_letter_replays')
    await clickhouse.command(`ALTER TABLE events MODIFY SETTING non_replicated_deduplication_window = 0`)
    t.teardown(() => clickhouse.command('ALTER TABLE events RESET SETTING non_replicated_deduplication_window'))
    t.strictSame(await replayDeadLetter(shards, found, 4), { isStored: true })
    t.equal(await count(), 1)
  })

  t.test('show says that the disk of its output is full', { skip: NO_FULL_DISK }, async (t) => {
    const args = ['dead-letters', 'show', await letter('{"events":[]}')]
    const { code, stderr } = await runOnFullDisk(args, { CLICKHOUSE_URL: engine.url })
    t.equal(code, 1)
    t.match(stderr, /^Store: .*\nThe output cannot be written: The disk of the file is full\.\n$/)
  })

  t.test('dead-letters explains wrong arguments', async (t) => {
    await t.rejects(run(), /list, show or replay/)
    await t.rejects(run('drop'), /list, show or replay/)
    await t.rejects(run('list', '--limit', '0'), /--limit/)
    await t.rejects(run('list', '1-0'), /takes no ID/)
    await t.rejects(run('show'), /Name the dead letter to show/)
    await t.rejects(run('replay'), /--all/)
    await t.rejects(run('replay', '1-0', '--all'), /--all/)
    await t.rejects(run('replay', "1-0' OR 1"), /is not the ID/)
    await t.rejects(run('list', '--what'), /--what/)
    await t.rejects(run('list', '--all'), /--all/)
    await t.rejects(run('show', '1-0', '--json'), /--json/)
    await t.rejects(run('replay', '--all', '--limit', '10'), /--limit/)
  })
})
