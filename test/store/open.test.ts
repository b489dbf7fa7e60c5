import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { lockDataFolder } from '../../src/clickhouse/embedded/data-dir.js'
import { startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import type { StoredKey } from '../../src/keys/keys.js'
import { insertKeys, readKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { dataFolder, settingsFor, silent, startApp, startClickHouse, startService, temporaryFolder } from '../helper.js'

const KEY: StoredKey = {
  id: 'sk_aaaaaaaa',
  hash: 'a'.repeat(64),
  projectId: 'p',
  kind: 'secret',
  label: '',
  origins: [],
  eventsOnly: false,
}

t.test('openStore starts its own engine if no service runs, and frees the folder afterwards', async (t) => {
  const config = { DATA_DIR: await dataFolder(t) }
  const engine = await startEmbeddedClickHouse({ path: join(config.DATA_DIR, 'clickhouse'), log: silent })
  await engine.close()
  const first = await openStore(config)
  await insertKeys(first.clickhouse, [KEY], Date.now())
  const second = openStore(config)
  await t.rejects(lockDataFolder(config.DATA_DIR), { name: 'FolderInUseError' })
  await first.close()
  const { clickhouse, close } = await second
  t.strictSame(await readKeys(clickhouse), [KEY], 'a simultaneous one waits, and finds the stored data')
  await close()
  t.notOk((await readdir(config.DATA_DIR)).some((name) => name.startsWith('owner.lock')))
})

t.test('openStore names a folder that ClickHouse cannot use', async (t) => {
  const path = join(await temporaryFolder(t), 'back\\slash', 'clickhouse')
  await t.rejects(startEmbeddedClickHouse({ path, log: silent }), {
    message: `ClickHouse cannot use ${path}, because it has`,
  })
})

t.test('openStore uses the engine of a running service and leaves it running', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const { app, config, call } = await startApp(t, env)
  const lock = join(config.DATA_DIR, 'owner.lock')
  t.equal((await stat(lock)).mode & 0o777, 0o600, 'only this user can read the password')
  const { clickhouse, close } = await openStore(config)
  await insertKeys(clickhouse, [KEY], Date.now())
  await close()
  t.equal((await call('GET', '/public/events')).statusCode, 200)
  const again = await openStore(config)
  t.strictSame(await readKeys(again.clickhouse), [KEY])
  await again.close()
  await app.close()
  t.notOk((await readdir(config.DATA_DIR)).includes('owner.lock'))
})

t.test('openStore recognises the leftovers of a killed service as stale', async (t) => {
  const config = { DATA_DIR: await dataFolder(t) }
  const service = await startService(t, config)
  const lock = join(config.DATA_DIR, 'owner.lock')
  t.match(JSON.parse(await readFile(lock, 'utf8')), { clickhouse: /^http:/ })
  service.process.kill('SIGKILL')
  await service.ended
  const { clickhouse, close } = await openStore(config)
  t.equal((await readKeys(clickhouse)).length, 2, 'the pair of the first start')
  t.match(JSON.parse(await readFile(lock, 'utf8')), { pid: process.pid })
  await close()
})

t.test('openStore names an owner that has no engine or whose engine does not respond', async (t) => {
  const config = { DATA_DIR: await temporaryFolder(t) }
  const folder = await lockDataFolder(config.DATA_DIR)
  await t.rejects(openStore(config, { ownerLimitMs: 0 }), { message: /process \d+\..* set CLICKHOUSE_URL/ })
  await folder.announce('http://127.0.0.1:1/analytics')
  await t.rejects(openStore(config, { ownerLimitMs: 0 }), { message: /process \d+\..* does not respond/ })
  await folder.release()
})

t.test('openStore uses the server of CLICKHOUSE_URL, and no folder', async (t) => {
  const { url } = await startClickHouse(t)
  const server = new ClickHouse({ url })
  await migrate(server)
  await server.close()
  const parent = await temporaryFolder(t)
  const { clickhouse, place, close } = await openStore({ CLICKHOUSE_URL: url, DATA_DIR: join(parent, 'data') })
  t.equal(place, `database analytics of ${new URL(url).origin}`, 'without the password')
  t.strictSame(await readKeys(clickhouse), [])
  await close()
  t.strictSame(await readdir(parent), [])
  await t.rejects(openStore({ CLICKHOUSE_URL: 'http://127.0.0.1:1/x', DATA_DIR: parent }), {
    name: 'StoreUnreachableError',
  })
})
