import { join } from 'node:path'
import { Redis } from 'ioredis'
import { open } from 'lmdb'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config.js'
import { openStore } from '../../src/store/open.js'
import { runCommand } from '../cli/command-line.js'
import { completeFacts, countDifferences } from '../facts/copied-facts.js'
import { startService } from '../helper.js'
import { ask, send } from './answers.js'
import { archiveOf, callsOf, KINDS, keptVersions, openFolder, readExpected, unpack } from './stores.js'

/** The audit log forgets entries after a year. */
const KEPT_BY_AUDIT_MS = 364 * 86_400_000

const versions = await keptVersions()
const [anyVersion = ''] = versions
const openCopy = async (t: Test, version: string, kind: (typeof KINDS)[number]) =>
  await openFolder(t, await unpack(t, archiveOf(version, kind)), kind)

for (const version of versions) {
  for (const kind of KINDS) {
    t.test(`the ${kind} store of ${version}, killed at work, gives the same answers and continues`, async (t) => {
      const { settings } = await openCopy(t, version, kind)
      const expected = await readExpected(version, kind)
      const service = await startService(t, settings)
      const call = callsOf(service.url)
      const isOld = Date.now() - Date.parse(expected.day) > KEPT_BY_AUDIT_MS
      const reads = expected.reads.filter(({ path }) => path !== '/public/audit' || !isOld)
      for (const [i, { path, body = '', answer }] of (await ask(call, reads)).entries()) {
        t.equal(answer, reads[i]?.answer, `${path} ${body}`)
      }

      const count = async () => JSON.parse(await call('GET', '/public/events?limit=10000')).events.length
      const before = await count()
      t.strictSame(await send(call, expected.repeated), expected.repeated, 'a repetition gets its first answer')
      t.equal(await count(), before, 'and stores nothing')
      await call('POST', '/public/track', { event: 'new', distinct_id: 'ada' })
      t.equal(await count(), before + 1)
      await assertComplete(t, settings)
      const { code, stdout, stderr } = await runCommand(['verify'], '', settings)
      t.equal(code, 0, stdout + stderr)
    })
  }
}

t.test('a store of a newer version is refused with a sentence', async (t) => {
  const refused = (what: string) =>
    new RegExp(`${what} was made by a newer version of Tallyhouse\\. Start that version or a later one\\. To go back`)

  t.test('because of its tables, by the service and by commands', async (t) => {
    const { settings } = await openCopy(t, anyVersion, 'embedded')
    const { clickhouse, close } = await openStore(loadConfig(settings))
    await clickhouse.command("INSERT INTO schema_migrations VALUES (1, '001_later.sql', 'of a later version', now())")
    await close()
    const sentence = refused('The database \\(migration 001_later\\.sql\\)')
    await t.rejects(startService(t, settings), sentence)
    const { code, stderr } = await runCommand(['keys', 'list'], '', settings)
    t.equal(code, 1)
    t.match(stderr, sentence)
  })

  t.test('because of its embedded journal', async (t) => {
    const { settings } = await openCopy(t, anyVersion, 'embedded')
    const root = open({ path: join(settings.DATA_DIR ?? '', 'journal'), maxDbs: 16 })
    const meta = root.openDB<{ format: number }, string>({ name: 'meta', encoding: 'json' })
    const found = meta.get('meta')
    await meta.put('meta', { ...found, format: (found?.format ?? 0) + 1 })
    await root.close()
    await t.rejects(startService(t, settings), refused('The journal in \\S+'))
  })

  t.test('because of one of its journals in Redis', async (t) => {
    const { settings, redis } = await openCopy(t, anyVersion, 'servers')
    const client = new Redis(redis?.url ?? '')
    await client.hincrby('{tallyhouse:1}:meta', 'format', 1)
    client.disconnect()
    await t.rejects(startService(t, settings), refused('The journal in Redis'))
  })
})

/** Checks that the facts have everything, and nothing else. */
async function assertComplete(t: Test, settings: NodeJS.ProcessEnv): Promise<void> {
  const { shards, close } = await openStore(loadConfig(settings))
  await shards.each(async ({ clickhouse }) => {
    await completeFacts(clickhouse, ['default'])
    t.equal(await countDifferences(clickhouse), 0)
  })
  await close()
}
