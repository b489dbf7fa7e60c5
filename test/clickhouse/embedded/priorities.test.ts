import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import t from 'tap'
import { canSetPriorities } from '../../../src/clickhouse/embedded/priorities.js'

/** Part of util-linux, so most systems have it. */
const SETPRIV = 'setpriv'
const isLinux = existsSync('/proc/self/status')

t.test('canSetPriorities is false for a process without CAP_SYS_NICE', { skip: !isLinux }, async (t) => {
  const child = spawn(SETPRIV, ['--bounding-set', '-sys_nice', '--inh-caps', '-sys_nice', 'sleep', '60'])
  const isStarted = await new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
  if (!isStarted) return t.comment('there is no setpriv')
  t.teardown(() => child.kill('SIGKILL'))
  // Until then, it is setpriv itself.
  while ((await canSetPriorities(child.pid)) === true) await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(await canSetPriorities(child.pid), false)
})

t.test('canSetPriorities is null for a process that does not exist', async (t) => {
  t.equal(await canSetPriorities(undefined), null)
})
