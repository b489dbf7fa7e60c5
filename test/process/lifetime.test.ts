import { spawnSync } from 'node:child_process'
import t from 'tap'

const FAILING = `async () => {
  throw new Error('the disk is full')
}`

t.test('a shutdown that fails is logged, and the exit code is 1', async (t) => {
  const { status, logged } = shutDown(FAILING)
  t.equal(status, 1)
  t.match(logged, { level: 50, msg: 'the shutdown failed', err: { message: 'the disk is full' } })
})

t.test('so is one that takes too long', async (t) => {
  const { status, logged } = shutDown('() => new Promise(() => undefined)')
  t.equal(status, 1)
  t.match(logged, { level: 40, msg: /^the shutdown took longer than 4.5 s and was abandoned/ })
})

/** Starts a process, ends it by a signal, and returns its exit code and what it has logged. @param close JavaScript */
function shutDown(close: string) {
  const source = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
  const script = `
    import { openLog } from ${source('lib/log.js')}
    import { Lifetime } from ${source('process/lifetime.js')}
    const lifetime = new Lifetime(await openLog('warn'))
    lifetime.endWith(${close})
    setInterval(() => undefined, 1_000)
    process.kill(process.pid, 'SIGTERM')
  `
  const args = ['--input-type=module', '--eval', script]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
  if (stderr) throw new Error(stderr)
  return { status, logged: JSON.parse(stdout || '{}') }
}
