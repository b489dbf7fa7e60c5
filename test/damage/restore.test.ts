import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../../src/cli/verify/command.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { run } from '../cli/lanes-store.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp, startClickHouse, temporaryFolder, until } from '../helper.js'
import { keepLog, partsOf, untilRecorded } from './damaged-store.js'

const EVENTS = 30

/** A ClickHouse that may write backups, the settings of a service, and calls of a service. */
async function open(t: Parameters<typeof startApp>[0]) {
  const path = join(await dataFolder(t), 'clickhouse')
  const backups = await temporaryFolder(t)
  await mkdir(join(path, 'conf.d'), { recursive: true })
  const allowed = `<clickhouse><backups><allowed_path>${backups}</allowed_path></backups></clickhouse>`
  await writeFile(join(path, 'conf.d', 'backups.xml'), allowed)
  const engine = await startClickHouse(t, path)
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  const env = {
    ...{ PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, PORT: '0', LOG_LEVEL: 'silent' },
    ...{ CLICKHOUSE_URL: engine.url, DATA_DIR: await temporaryFolder(t) },
  }
  /** Stores batches one by one, so that each is a part. */
  const track = async (batches = 1) => {
    const client = await startApp(t, env)
    const events = Array.from({ length: EVENTS }, (_, i) => ({ event: 'e', distinct_id: `u${i}` }))
    let stored = (await client.events()).length
    for (let batch = 0; batch < batches; batch++) {
      await client.call('POST', '/public/track/batch', { events })
      stored += EVENTS
      await until('the events', async () => (await client.events()).length === stored)
    }
    await untilRecorded(env.CLICKHOUSE_URL)
    await client.app.close()
  }
  const verify = (...args: string[]) => run(command, ['--quick', ...args], env)
  /** Starts a service. @returns the losses that it reports */
  const losses = async () => {
    const { log, lines } = keepLog()
    const client = await startApp(t, env, { log })
    const count = (await client.events()).length
    await client.app.close()
    return { count, lost: lines.filter(({ part }) => part !== undefined) }
  }
  return { path, backups, engine, clickhouse, env, track, verify, losses }
}

t.test('a restored database misses the events received since the backup, but no part', async (t) => {
  const { backups, clickhouse, track, verify, losses } = await open(t)
  await track(2)
  const file = `File('${backups}/whole')`
  await clickhouse.command(`BACKUP DATABASE analytics TO ${file}`)
  await clickhouse.commandWithoutDatabase('DROP DATABASE analytics SYNC')
  await clickhouse.commandWithoutDatabase(`RESTORE DATABASE analytics FROM ${file}`)
  t.strictSame(await losses(), { count: 2 * EVENTS, lost: [] })
  const same = await verify()
  t.equal(same.code, 0, same.printed)
  await track()
  await clickhouse.commandWithoutDatabase('DROP DATABASE analytics SYNC')
  await clickhouse.commandWithoutDatabase(`RESTORE DATABASE analytics FROM ${file}`)
  t.strictSame(await losses(), { count: 2 * EVENTS, lost: [] })
  const older = await verify()
  t.equal(older.code, 1, older.printed)
  t.match(older.printed, new RegExp(`${3 * EVENTS} received = ${2 * EVENTS} stored .* ${EVENTS} missing`))
  t.equal((await verify('--accept')).code, 0)
  await track()
  const after = await verify()
  t.equal(after.code, 0, after.printed)
  t.match(after.printed, new RegExp(`${3 * EVENTS} received = ${3 * EVENTS} stored .* counted since`))
})

t.test('rows that are inserted again from a backup complete the ledger', async (t) => {
  const { path, backups, engine, clickhouse, env, track, verify, losses } = await open(t)
  await track(2)
  const file = `File('${backups}/whole')`
  await clickhouse.command(`BACKUP TABLE analytics.events TO ${file}`)
  await engine.close()
  const [part] = await partsOf(path)
  await rm(part?.path ?? '', { recursive: true })
  const again = await startClickHouse(t, path)
  env.CLICKHOUSE_URL = again.url
  const after = new ClickHouse({ url: again.url })
  t.teardown(() => after.close())
  t.match(await losses(), { lost: [{ part: part?.name }] })
  await after.commandWithoutDatabase('CREATE DATABASE old')
  await after.command(`RESTORE TABLE analytics.events AS old.events FROM ${file}`)
  await after.command(
    `INSERT INTO events SELECT * FROM old.events
     WHERE _partition_id = '${part?.partition}'
       AND event_id NOT IN (SELECT event_id FROM events WHERE _partition_id = '${part?.partition}')`,
  )
  const restored = await verify()
  t.match(restored.printed, `Ledger: default: ${2 * EVENTS} received = ${2 * EVENTS} stored`)
  t.equal(restored.code, 1, 'the part itself is gone')
  t.equal((await verify('--accept')).code, 0)
  t.strictSame(await losses(), { count: 2 * EVENTS, lost: [] })
  t.equal((await verify()).code, 0)
})
