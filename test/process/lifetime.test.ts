import { spawnSync } from 'node:child_process'
import t from 'tap'

t.test('a shutdown that fails is logged, and the exit code is 1', async (t) => {
  const script = `
    import { openLog } from './src/lib/log.ts'
    import { Lifetime } from './src/process/lifetime.ts'
    const lifetime = new Lifetime(await openLog('error'))
    lifetime.endWith(async () => {
      throw new Error('the disk is full')
    })
    setInterval(() => undefined, 1_000)
    process.kill(process.pid, 'SIGTERM')
  `
  const args = ['--import=tsx', '--input-type=module', '--eval', script]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
  t.equal(status, 1)
  t.match(JSON.parse(stdout || '{}'), { msg: 'the shutdown failed', err: { message: 'the disk is full' } })
  t.equal(stderr, '')
})
