import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { command as exportCommand } from '../../src/cli/export/command.js'
import { command as importCommand } from '../../src/cli/import/command.js'
import { command as sql } from '../../src/cli/sql.js'
import { openStore } from '../../src/store/open.js'
import { EVENTS, fill, perShard, run, settingsOn } from '../cli/lanes-store.js'
import { startApp, temporaryFolder, until } from '../helper.js'
import { startNodes } from '../nodes.js'

const nodes = await startNodes(t, 2)

t.test('data on three lanes and two shards', async (t) => {
  const env = await settingsOn(t, nodes, { database: 'source', lanes: 3, shards: 2 })
  const client = await startApp(t, env)
  const { call } = client
  await fill(client)
  const { shards, close } = await openStore(client.config)
  t.teardown(close)
  t.equal((await client.events()).length, 120)
  const spread = await perShard(shards, EVENTS)
  t.ok(
    spread.every((count) => count > 0),
    `on every shard: ${spread}`,
  )

  t.test('a user is exported and erased on every shard, down to the disk', async (t) => {
    const lines = (await call('GET', '/public/users/user-1/export')).body.trim().split('\n')
    t.equal(lines.length, 8, 'a profile, a session and 6 events')
    const erase = async (...distinct_ids: string[]) =>
      (await call('POST', '/public/users/erase', { distinct_ids })).json()
    const { erased, purge_error } = await erase('user-1', 'user-2', 'nobody')
    t.strictSame(erased, [
      { distinct_id: 'user-1', profile: true, events: 6, sessions: 1, dead_letters: 0 },
      { distinct_id: 'user-2', profile: true, events: 6, sessions: 1, dead_letters: 0 },
      { distinct_id: 'nobody', profile: false, events: 0, sessions: 0, dead_letters: 0 },
    ])
    t.equal(purge_error, null)
    await until('the purge', async () => (await erase('nobody')).gone_at)
    const left = `SELECT count() AS n FROM events WHERE distinct_id = 'user-1' SETTINGS apply_deleted_mask = 0, apply_patch_parts = 0`
    t.strictSame(await perShard(shards, left), [0, 0])
    t.strictSame(
      await perShard(shards, `SELECT countIf(distinct_id = 'user-1' AND properties != '') AS n FROM profiles`),
      [0, 0],
    )
    t.equal((await call('GET', '/public/users/user-1/export')).statusCode, 404)
    // It is not known yet when the data will have left the disk: the purge of a second call waits for its turn.
    t.match(
      await erase('user-1'),
      {
        ...{ status: 1, error: null, unreadable_dead_letters: 0, purge_error: null },
        erased: [{ distinct_id: 'user-1', profile: false, events: 0, sessions: 0, dead_letters: 0 }],
      },
      'nothing is left',
    )
  })

  t.test('SQL, and a notice where a query reads one shard', async (t) => {
    const one = await run(sql, ['SELECT count() FROM events FORMAT TSV'], env)
    t.equal(one.printed, `${(await perShard(shards, EVENTS))[0]}\n`)
    t.match(one.noted, /^events covers only the first of 2 shards; events_all covers all of them\.$/m)
    const all = await run(sql, ['SELECT count(), max(time) < now() FROM events_all FORMAT TSV'], env)
    t.equal(all.printed, '108\t1\n')
    t.notMatch(all.noted, /first of/)
    const profiles = await run(sql, ['SELECT count() FROM profiles_all FORMAT TSV'], env)
    t.equal(profiles.printed, '17\n', 'without deleted ones')
    t.match((await run(sql, ['SELECT count() FROM api_keys'], env)).noted, /^Store: [^\n]*\n$/)
  })

  t.test('files are exported and imported through the API', async (t) => {
    const url = ['--url', await client.app.listen({ port: 0, host: '127.0.0.1' })]
    const file = join(await temporaryFolder(t), 'events.ndjson')
    t.equal((await run(exportCommand, ['--output', file, ...url], env)).code, 0)
    const lines = (await readFile(file, 'utf8')).trim().split('\n')
    t.equal(lines.length, 108)
    const ids = lines.map((line) => JSON.parse(line).eventId)
    t.strictSame(ids, [...ids].sort(), 'in the order of acceptance')
    t.equal((await run(importCommand, [file, ...url], env)).code, 0)
    t.equal((await client.events()).length, 216)
    t.equal((await run(importCommand, [file, ...url], env)).code, 0)
    t.equal((await client.events()).length, 216, 'nothing twice')
  })
})
