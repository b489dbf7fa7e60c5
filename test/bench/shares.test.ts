import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { cpuOf } from '../../bench/machines.js'
import { openCpuGroup } from '../../bench/shares.js'
import { until } from '../helper.js'

const LOOP = 'console.log("began"); for (;;);'
const SHARE = 0.1
/** CPU time to wait for; the kernel counts in steps of 10 ms, and grants 2 at a time with this share. */
const USED_US = 80_000

t.test('a group limits its processes to a share of a core, or not at all', async (t) => {
  const group = openCpuGroup()
  if (!group) return t.comment('this process may not make groups')
  const child = spawn(process.execPath, ['-e', LOOP], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(async () => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
    await group.close()
  })
  await once(child.stdout, 'data')
  const pid = child.pid ?? 0
  group.add(pid)

  const shareUsed = async () => {
    const [from, startedAt] = [await cpuOf(pid), performance.now()]
    const used = await until('the CPU time', async () => {
      const us = (await cpuOf(pid)) - from
      return us >= USED_US && us
    })
    return used / 1000 / (performance.now() - startedAt)
  }
  group.limit(SHARE)
  const limited = await shareUsed()
  t.ok(limited < 1.5 * SHARE, `with a share it used ${limited}`)
  group.limit(null)
  const free = await shareUsed()
  t.ok(free > 3 * SHARE, `without one it used ${free}`)
})
