import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { lockDataFolder } from '../../../src/clickhouse/embedded/data-dir.js'
import { failureText } from '../../../src/lib/failure-text.js'
import { until } from '../../helper.js'

const onLinux = process.platform === 'linux'

function inUseBy(dir: string, pid: number) {
  const message = `The data folder ${dir} is in use by process ${pid}. Stop that process, or set another DATA_DIR for this one.`
  return { message }
}

t.test('creates the folder for its owner only', async (t) => {
  const dir = join(t.testdir({}), 'new', 'data')
  const { release } = await lockDataFolder(dir)
  t.equal((await stat(dir)).mode & 0o777, 0o700)
  await release()
  t.same(await readdir(dir), ['folder.lock'], 'only the file that is locked stays')
})

t.test('a path that cannot be a folder is refused', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file')
  for (const dir of [file, join(file, 'new', 'data')]) {
    await t.rejects(lockDataFolder(dir), { message: `DATA_DIR must be a folder, but ${file} is not one.` })
  }
  await symlink(join(file, 'nowhere'), `${file}-link`)
  await t.rejects(lockDataFolder(`${file}-link`), {
    message: `DATA_DIR must be a folder, but ${file}-link is not one.`,
  })
})

// Node would try forever.
t.test('a folder that cannot be made is refused', { skip: !onLinux && 'needs /proc' }, async (t) => {
  for (const dir of ['/proc/tallyhouse', '/proc/tallyhouse/data']) {
    await t.rejects(lockDataFolder(dir), {
      message: /^The folder \/proc\/tallyhouse\S* cannot be created there\. Set another DATA_DIR\.$/,
    })
  }
})

t.test('a second owner is refused, a released folder can be taken again', async (t) => {
  const dir = t.testdir({})
  const first = await lockDataFolder(dir)
  await t.rejects(lockDataFolder(dir), inUseBy(dir, process.pid))
  await first.release()
  const second = await lockDataFolder(dir)
  await first.release()
  await t.rejects(lockDataFolder(dir), inUseBy(dir, process.pid), 'a second release gives up nobody else’s lock')
  await second.release()
})

t.test(
  'lockDataFolder names a full disk, and a failed start leaves nothing behind',
  { skip: !onLinux && 'needs /dev/full' },
  async (t) => {
    const dir = t.testdir({})
    for (let start = 1; start <= 3; start++) {
      await symlink('/dev/full', join(dir, 'owner.lock.new'))
      const error = await lockDataFolder(dir).catch((error) => error)
      t.equal(failureText(error), `The disk of ${dir} is full.`)
      t.same(await readdir(dir), ['folder.lock'])
    }
    const { release } = await lockDataFolder(dir)
    await release()
  },
)

t.test('the leftovers of a killed start are overwritten', async (t) => {
  const dir = t.testdir({ 'owner.lock.new': '{"pid":' })
  const { release } = await lockDataFolder(dir)
  t.same((await readdir(dir)).sort(), ['folder.lock', 'owner.lock'])
  await release()
})

/** A process that locks `dir`, and owns it until it is killed; `around` is a command that starts it, if any. */
async function startOwner(t: Test, dir: string, around: string[] = []) {
  const source = new URL('../../../src/clickhouse/embedded/data-dir.js', import.meta.url).href
  const script = `const { lockDataFolder } = await import(${JSON.stringify(source)})
await lockDataFolder(${JSON.stringify(dir)}).catch(({ message }) => (console.log(message), process.exit(1)))
console.log('locked by', process.pid)
setInterval(() => {}, 1000)`
  const node = [process.execPath, ...process.execArgv, '--input-type=module', '-e', script]
  const [command = '', ...args] = [...around, ...node]
  const owner = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => owner.kill('SIGKILL'))
  const [said] = await once(owner.stdout, 'data')
  return { owner, said: String(said).trim() }
}

t.test('another process owns the folder as long as it lives', async (t) => {
  const dir = t.testdir({})
  const { owner, said } = await startOwner(t, dir)
  t.equal(said, `locked by ${owner.pid}`)
  await t.rejects(lockDataFolder(dir), inUseBy(dir, owner.pid ?? 0))

  owner.kill('SIGKILL')
  await once(owner, 'exit')
  const { release } = await lockDataFolder(dir)
  t.equal(JSON.parse(await readFile(join(dir, 'owner.lock'), 'utf8')).pid, process.pid)
  await release()
})

// Like every container, it has its own pids, so nobody outside can tell by its pid whether it is alive.
const UNSHARE = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child', '--mount-proc']
const canUnshare = spawnSync(UNSHARE[0] ?? '', [...UNSHARE.slice(1), 'true']).status === 0
const noUnshare = !canUnshare && 'needs `unshare` and the right to make pid namespaces'

t.test('a process in another pid namespace owns the folder as long as it lives', { skip: noUnshare }, async (t) => {
  const dir = t.testdir({})
  const { owner, said } = await startOwner(t, dir, UNSHARE)
  t.equal(said, 'locked by 1', 'it has its own namespace')
  await t.rejects(lockDataFolder(dir), inUseBy(dir, 1))

  owner.kill('SIGKILL')
  // The namespace in which it is pid 1 ends a moment after `unshare`.
  const { release } = await until('the lock', () => lockDataFolder(dir).catch(() => undefined))
  t.equal((await startOwner(t, dir, UNSHARE)).said, inUseBy(dir, process.pid).message, 'and is refused itself')
  await release()
})

t.test('an owner on another host is named with its host', async (t) => {
  const dir = t.testdir({})
  const { release } = await lockDataFolder(dir)
  await writeFile(join(dir, 'owner.lock'), JSON.stringify({ pid: 1, host: 'another' }))
  await t.rejects(lockDataFolder(dir), { message: /in use by process 1 on another\./ })
  await writeFile(join(dir, 'owner.lock'), '')
  await t.rejects(lockDataFolder(dir), { message: /in use by another process\./ })
  await release()
})

t.test('a file that no owner has written is replaced', async (t) => {
  for (const content of ['', '{', 'null', '{"pid":-1}', '{"pid":"1"}']) {
    const dir = t.testdir({ 'owner.lock': content })
    const { release } = await lockDataFolder(dir)
    await release()
    t.same(await readdir(dir), ['folder.lock'], JSON.stringify(content))
  }
})

t.test('of many concurrent starts, one gets the folder', async (t) => {
  const dir = t.testdir({})
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => lockDataFolder(dir)))
  const locks = results.filter((result) => result.status === 'fulfilled')
  t.equal(locks.length, 1)
  await locks[0]?.value.release()
  t.same(await readdir(dir), ['folder.lock'])
})
