import { spawnSync } from 'node:child_process'
import t from 'tap'

t.test('a shutdown that fails is logged, and the exit code is 1', async (t) => {
  const source = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
  const script = `
    import { openLog } from ${source('lib/log.js')}
    import { Lifetime } from ${source('process/lifetime.js')}
    const lifetime = new Lifetime(await openLog('error'))
    lifetime.endWith(async () => {
      throw new Error('the disk is full')
    })
    setInterval(() => undefined, 1_000)
    process.kill(process.pid, 'SIGTERM')
  `
  const args = ['--input-type=module', '--eval', script]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
  t.equal(status, 1)
  t.match(JSON.parse(stdout || '{}'), { msg: 'the shutdown failed', err: { message: 'the disk is full' } })
  t.equal(stderr, '')
})
