import { execFile, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { Journal } from '../../src/journal/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { parseMemory, roomIn } from '../../src/journal/redis/maxmemory.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { type RedisServer, randomName, silent, startRedis, temporaryFolder, until } from '../helper.js'

const run = promisify(execFile)
const dist = fileURLToPath(new URL('../../dist/', import.meta.url))

let projects = 0
/** Appends an entry of this many bytes for a new project, so that no share refuses it. */
const append = (bytes: number) => {
  const of = { projectId: `p${++projects}`, keyClass: 'secret' as const }
  return [{ type: 'append' as const, ...of, count: 1, body: Buffer.alloc(bytes, 'x'), ids: NO_IDS }]
}

t.test('lmdb: a write beyond the file size limit is refused and changes nothing', async (t) => {
  const path = await temporaryFolder(t)
  const program = `
    import { openLmdbJournal } from '${dist}journal/lmdb/journal.js'
    const journal = await openLmdbJournal({ path: '${path}/journal', maxBytes: 1e9 })
    const write = () => journal.write([{ type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.alloc(200_000, 'x'), ids: { kind: 'none' } }])
    let taken = 0, refused = 0
    for (let i = 0; i < 60; i++) await write().then(() => taken++, ({ code }) => (code === 'unavailable' ? refused++ : 0))
    const { entries } = await journal.depth()
    const block = await journal.claim(1e9)
    const meanwhile = write().catch(() => undefined)
    await journal.acknowledge(block, [])
    await meanwhile
    const again = await write().then(() => true, () => false)
    console.log(JSON.stringify({ taken, refused, entries, claimed: block?.entries.length, again }))
    process.exit()
  `
  // Node ignores SIGXFSZ, so a write beyond the limit fails like one on a full disk; code that tap loads does not
  // ignore it.
  const { stdout } = await run('bash', [
    '-c',
    'unset NODE_OPTIONS; ulimit -f 6000; exec node --input-type=module -e "$0"',
    program,
  ])
  const { taken, refused, entries, claimed, again } = JSON.parse(stdout)
  t.ok(taken > 0 && refused > 0, `${taken} were taken and ${refused} refused`)
  t.equal(entries, taken)
  t.equal(claimed, taken)
  t.ok(again, 'it takes events again when it has been drained, though some were refused meanwhile')
})

// A small disk in a namespace, invisible to other processes.
const NAMESPACE = ['--user', '--map-root-user', '--mount']
const canMount = spawnSync('unshare', [...NAMESPACE, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const noMount = !canMount && 'needs `unshare`, and the right to mount a tmpfs in a namespace'

/**
 * Runs a program that fills a journal on a disk of 40 MiB until it refuses, and drains it.
 * @param between code that runs before it drains
 */
async function onSmallDisk(
  t: Test,
  write: string,
  between: string,
): Promise<{ taken: number; drained: number; again: boolean; ready: boolean[] }> {
  const disk = await temporaryFolder(t)
  const program = `
    import { writeFileSync } from 'node:fs'
    import { openLmdbJournal } from '${dist}journal/lmdb/journal.js'
    const path = '${disk}/journal'
    let now = Date.now()
    const journal = await openLmdbJournal({ path, maxBytes: 1e9, segmentBytes: 2e6, now: () => now })
    let n = 0
    const versions = []
    const append = () => journal.write([{ type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body: Buffer.alloc(50_000, 'x'), ids: { kind: 'none' } }])
    const stateKey = () => Buffer.from(String(++n).padStart(16, '0')).toString('hex')
    const commit = async () => {
      const keys = Array.from({ length: 100 }, stateKey)
      const [{ position: version }] = await journal.write(keys.map((stateKey) => (
        { type: 'commit', keyClass: 'secret', projectId: 'p', kind: 'profiles', stateKey, expected: 0n, readAt: now, state: 'x'.repeat(900), row: '{}', ids: { kind: 'none' } })))
      versions.push(...keys.map((stateKey) => ({ stateKey, version })))
    }
    const fill = async () => {
      for (let taken = 0; ; taken++) {
        const failure = await ${write}().then(() => null, (error) => error)
        if (failure?.code === 'unavailable') return taken
        if (failure) throw failure
      }
    }
    let drained = 0
    const drain = async (most) => {
      for (let blocks = 0; blocks < most; blocks++) {
        const block = await journal.claim(1_000_000)
        if (!block) return
        const states = versions.splice(0, versions.findLastIndex(({ version }) => version <= block.last) + 1)
        await journal.acknowledge(block, states)
        drained += block.entries.length
      }
    }
    const isReady = () => journal.ping().then(() => true, ({ code }) => code !== 'unavailable')
    const before = await isReady()
    let taken = await fill()
    const full = await isReady()
    ${between}
    await drain(Infinity)
    now += 20 * 60_000
    let again = false
    for (let i = 0; i < 100 && !again; i++) again = await ${write}().then(() => true, () => false)
    console.log(JSON.stringify({ taken, drained, again, ready: [before, full, await isReady()] }))
    process.exit()
  `
  const args = ['bash', '-c', 'mount -t tmpfs -o size=40m tmpfs "$0" && unset NODE_OPTIONS && exec "$@"', disk]
  const node = [process.execPath, '--input-type=module', '-e', program]
  const { stdout } = await run('unshare', [...NAMESPACE, ...args, ...node])
  return JSON.parse(stdout)
}

/** Drains half of the journal, and lets another process take the rest of the disk. */
const FILL = `
    await drain(6)
    for (let i = 0, bytes = 1 << 20; bytes > 100; i++) {
      try { writeFileSync(path + '/../other' + i, Buffer.alloc(bytes)) } catch { bytes >>= 1 }
    }`

const fillings = [
  ['events have filled', 'append', ''],
  ['states have filled', 'commit', ''],
  // Like ClickHouse might: only the files that are kept for reuse can still be freed.
  ['another process has filled', 'append', FILL],
] as const
for (const [name, write, between] of fillings) {
  t.test(`lmdb: the journal can be drained on a disk that ${name}`, { skip: noMount }, async (t) => {
    const { taken, drained, again, ready } = await onSmallDisk(t, write, between)
    t.ok(taken > 20, `${taken} writes were taken`)
    t.equal(drained, taken, 'none of them is lost')
    t.ok(again, 'it takes writes again')
    // While the other process keeps the disk full, LMDB has no room for profiles.
    t.strictSame(ready, [true, false, between === ''], 'it is ready unless it refuses writes')
  })
}

/** Writes until the journal refuses. */
async function fill(journal: Journal, bytes: number): Promise<{ taken: number; refusal: unknown }> {
  for (let taken = 0; taken < 2000; taken++) {
    try {
      await journal.write(append(bytes))
    } catch (refusal) {
      return { taken, refusal }
    }
  }
  throw new Error('it takes everything')
}

/** @returns the number of entries */
async function drain(journal: Journal): Promise<number> {
  let drained = 0
  for (;;) {
    const block = await journal.claim(2_000_000)
    if (!block) return drained
    drained += block.entries.length
    await journal.acknowledge(block, [])
  }
}

async function open(t: Test, { url }: RedisServer, maxBytes = 1e9): Promise<Journal> {
  const journal = await openRedisJournal({ url, maxBytes, prefix: `{${randomName('j')}}`, log: silent })
  t.teardown(() => journal.close())
  return journal
}

t.test('redis: the journal refuses before Redis does, can be drained, and then accepts writes again', async (t) => {
  const redis = await startRedis(t, ['--maxmemory', '24mb', '--maxmemory-policy', 'noeviction'])
  const admin = new Redis(redis.url)
  t.teardown(() => admin.disconnect())
  const journal = await open(t, redis)
  const { limitBytes } = await journal.depth()
  t.ok(limitBytes > 8e6 && limitBytes < 12e6, `the limit is ${limitBytes}`)

  const { taken, refusal } = await fill(journal, 100_000)
  t.match(refusal, { code: 'overloaded' })
  t.match(await admin.info('errorstats'), /errorstat_FULL/)
  t.notMatch(await admin.info('errorstats'), /errorstat_OOM/)
  const { entries, bytes } = await journal.depth()
  t.equal(entries, taken)
  t.ok(bytes > 8e6, `it accepts as much as fits: ${bytes}`)

  t.equal(await drain(journal), taken, 'nothing accepted is lost')
  await until('the journal to take again', () =>
    journal.write(append(100_000)).then(
      () => true,
      () => false,
    ),
  )
})

t.test('redis: data of other applications in Redis counts', async (t) => {
  const redis = await startRedis(t, ['--maxmemory', '24mb', '--maxmemory-policy', 'noeviction'])
  const admin = new Redis(redis.url)
  t.teardown(() => admin.disconnect())
  const journal = await open(t, redis)
  await journal.write(append(100_000))
  for (let i = 0; i < 140; i++) await admin.rpush('else', Buffer.alloc(100_000))
  await until('the limit to fall', async () => (await journal.depth()).limitBytes < 0)
  await t.rejects(journal.write(append(100)), { code: 'overloaded' })
  await admin.del('else')
  await until('the journal to take again', () =>
    journal.write(append(100)).then(
      () => true,
      () => false,
    ),
  )
  t.equal(await drain(journal), 2)
})

t.test('redis: a journal can be drained while Redis is out of memory, and then accepts writes again', async (t) => {
  const redis = await startRedis(t)
  const admin = new Redis(redis.url)
  t.teardown(() => admin.disconnect())
  const journal = await open(t, redis)
  for (let i = 0; i < 20; i++) await journal.write(append(100_000))
  await admin.config('SET', 'maxmemory', '1mb')
  await t.rejects(journal.write(append(100)), { code: 'overloaded' })
  t.equal(await drain(journal), 20)
  await admin.config('SET', 'maxmemory', '0')
  await until('the journal to take again', () =>
    journal.write(append(100)).then(
      () => true,
      () => false,
    ),
  )
})

t.test('redis: a server that may evict accepted data is refused', async (t) => {
  const redis = await startRedis(t, ['--maxmemory', '24mb', '--maxmemory-policy', 'allkeys-lru'])
  await t.rejects(open(t, redis), /maxmemory-policy to noeviction/)
})

t.test('redis: a server that may evict accepted data later is reported once', async (t) => {
  const redis = await startRedis(t, ['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction'])
  const admin = new Redis(redis.url)
  t.teardown(() => admin.disconnect())
  const errors: object[] = []
  const log = { ...silent, error: (data: object) => errors.push(data) }
  const journal = await openRedisJournal({ url: redis.url, maxBytes: 1e9, log })
  t.teardown(() => journal.close())
  await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
  await until('a line in the log', () => errors.length > 0)
  t.match(errors, [{ err: /maxmemory-policy allkeys-lru/ }])
})

t.test(
  'redis: a server that keeps ids in much memory or events only there is reported, and one that does not say is not',
  async (t) => {
    const opened = async (args: string[]) => {
      const server = await startRedis(t, args)
      const warnings: object[] = []
      const log = { ...silent, warn: (data: object) => warnings.push(data) }
      const journal = await openRedisJournal({ url: server.url, maxBytes: 1e9, log })
      await journal.close()
      return warnings
    }
    t.strictSame(await opened(['--hash-max-listpack-entries', '128']), [{ 'hash-max-listpack-entries': 128 }])
    t.strictSame(await opened(['--appendonly', 'no']), [{ appendonly: 'no' }])
    t.strictSame(await opened([]), [], 'what the tests start is right')
    t.strictSame(await opened(['--rename-command', 'CONFIG', '']), [])
  },
)

t.test('the free memory of Redis', async (t) => {
  const MIB = 1024 * 1024
  const room = (used: number, limit: number) => roomIn({ used: used * MIB, limit: limit * MIB, policy: 'noeviction' })
  t.equal(room(100, 0), Number.POSITIVE_INFINITY, 'without a limit there is no end')
  t.equal(room(0, 1000), 800 * MIB, 'a fifth is kept')
  t.equal(room(10, 200), 126 * MIB, '64 MiB at least')
  t.equal(room(10, 24), 2 * MIB, 'but no more than half')
  t.ok(room(20, 24) < 0)
  const info =
    '# Memory\r\nused_memory:700\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\nmem_not_counted_for_evict:50\r\n'
  t.strictSame(parseMemory(info), { used: 650, limit: 1000, policy: 'noeviction' })
})
