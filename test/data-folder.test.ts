import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { lockDataFolder } from '../src/data-folder.js'

const onLinux = process.platform === 'linux'

function inUseBy(dir: string, pid: number) {
  const message = `The data folder ${dir} is in use by process ${pid}. Stop that process, or set another DATA_DIR for this one.`
  return { message }
}

t.test('creates the folder for its owner alone', async (t) => {
  const dir = join(t.testdir({}), 'new', 'data')
  const { release } = await lockDataFolder(dir)
  t.equal((await stat(dir)).mode & 0o777, 0o700)
  await release()
  t.same(await readdir(dir), [], 'nothing is left behind')
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

t.test('another process owns it as long as it lives', async (t) => {
  const dir = t.testdir({})
  const source = new URL('../src/data-folder.ts', import.meta.url).href
  const script = `const { lockDataFolder } = await import(${JSON.stringify(source)})
await lockDataFolder(${JSON.stringify(dir)})
console.log('locked')
setInterval(() => {}, 1000)`
  const owner = spawn(process.execPath, [...process.execArgv, '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => owner.kill('SIGKILL'))
  await once(owner.stdout, 'data')
  await t.rejects(lockDataFolder(dir), inUseBy(dir, owner.pid ?? 0))

  owner.kill('SIGKILL')
  await once(owner, 'exit')
  const { release } = await lockDataFolder(dir)
  t.equal(JSON.parse(await readFile(join(dir, 'owner.lock'), 'utf8')).pid, process.pid)
  await release()
})

t.test('a pid that another process has now is no owner', { skip: !onLinux && 'needs /proc' }, async (t) => {
  const dir = t.testdir({ 'owner.lock': JSON.stringify({ pid: process.pid, started: '1' }) })
  const { release } = await lockDataFolder(dir)
  t.not(JSON.parse(await readFile(join(dir, 'owner.lock'), 'utf8')).started, '1')
  await release()
})

t.test('without a start time the pid alone decides', async (t) => {
  const dir = t.testdir({ 'owner.lock': JSON.stringify({ pid: process.pid, started: null }) })
  await t.rejects(lockDataFolder(dir), inUseBy(dir, process.pid))
})

t.test('what no owner has written is replaced', async (t) => {
  for (const content of ['', '{', 'null', '{"pid":-1}', '{"pid":"1"}']) {
    const dir = t.testdir({ 'owner.lock': content })
    const { release } = await lockDataFolder(dir)
    await release()
    t.same(await readdir(dir), [], JSON.stringify(content))
  }
})

t.test('of many starters, one gets the folder', async (t) => {
  const dir = t.testdir({})
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => lockDataFolder(dir)))
  const locks = results.filter((result) => result.status === 'fulfilled')
  t.equal(locks.length, 1)
  await locks[0]?.value.release()
  t.same(await readdir(dir), [])
})

t.test('a folder that cannot be created is an error', async (t) => {
  const dir = t.testdir({})
  await writeFile(join(dir, 'file'), '')
  await t.rejects(lockDataFolder(join(dir, 'file', 'data')), { code: 'ENOTDIR' })
})
