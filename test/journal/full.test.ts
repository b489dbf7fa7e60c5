import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { openRedisJournal } from '../../src/journal/redis.js'
import { randomName, silent, startRedis, temporaryFolder } from '../helper.js'

const run = promisify(execFile)
const dist = fileURLToPath(new URL('../../dist/', import.meta.url))

/** A write of one entry of this many bytes. */
const append = (bytes: number) => [
  { type: 'append' as const, projectId: 'p', count: 1, body: Buffer.alloc(bytes, 'x') },
]

t.test('lmdb: a file that may not grow is a refusal, which leaves nothing behind and ends nothing', async (t) => {
  const path = await temporaryFolder(t)
  const program = `
    import { openLmdbJournal } from '${dist}journal/lmdb.js'
    const journal = await openLmdbJournal({ path: '${path}/journal', maxBytes: 1e9 })
    const write = () => journal.write([{ type: 'append', projectId: 'p', count: 1, body: Buffer.alloc(200_000, 'x') }])
    let taken = 0, refused = 0
    for (let i = 0; i < 60; i++) await write().then(() => taken++, ({ code }) => (code === 'unavailable' ? refused++ : 0))
    const { entries } = await journal.depth()
    const block = await journal.claim(1e9)
    console.log(JSON.stringify({ taken, refused, entries, claimed: block?.entries.length }))
    process.exit()
  `
  // Node ignores SIGXFSZ, so a write beyond the limit fails as one on a full disk does.
  const { stdout } = await run('bash', ['-c', 'ulimit -f 6000; exec node --input-type=module -e "$0"', program])
  const { taken, refused, entries, claimed } = JSON.parse(stdout)
  t.ok(taken > 0 && refused > 0, `${taken} were taken and ${refused} refused`)
  t.equal(entries, taken)
  t.equal(claimed, taken)
})

t.test('redis: out of memory it refuses, can be drained, and takes again', async (t) => {
  const redis = await startRedis(t, ['--maxmemory', '12mb', '--maxmemory-policy', 'noeviction'])
  const journal = await openRedisJournal({ url: redis.url, maxBytes: 1e9, prefix: `{${randomName('j')}}`, log: silent })
  t.teardown(() => journal.close())
  let taken = 0
  let refusal: unknown
  while (refusal === undefined && taken < 500) {
    await journal.write(append(100_000)).then(
      () => taken++,
      (error: unknown) => {
        refusal = error
      },
    )
  }
  t.match(refusal, { code: 'overloaded' })
  t.equal((await journal.depth()).entries, taken)
  let drained = 0
  for (;;) {
    const block = await journal.claim(2_000_000)
    if (!block) break
    drained += block.entries.length
    await journal.settle(block, [])
  }
  t.equal(drained, taken)
  await journal.write(append(100_000))
})
