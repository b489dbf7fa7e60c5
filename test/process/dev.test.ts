import { spawn } from 'node:child_process'
import t from 'tap'
import { dataFolder, until } from '../helper.js'

/** Who sends it: npm's process alone gets what a process manager sends, all of them what a terminal does. */
const ENDINGS = [
  ['ended', 'SIGTERM', 'npm'],
  ['interrupted by Ctrl-C', 'SIGINT', 'all'],
] as const

for (const [how, signal, who] of ENDINGS) {
  t.test(`npm run dev ends the service when it is ${how}`, async (t) => {
    const env = { ...process.env, PORT: '0', DATA_DIR: await dataFolder(t) }
    const dev = spawn('npm', ['run', 'dev'], { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
    const group = -(dev.pid ?? 0)
    t.teardown(() => {
      try {
        process.kill(group, 'SIGKILL')
      } catch (error) {
        t.match(error, { code: 'ESRCH' }, 'nothing is left')
      }
    })
    let output = ''
    dev.stdout.on('data', (chunk) => {
      output += chunk
    })
    const url = await until('the service', () => /serves at (http:\/\/\S+)/.exec(output)?.[1])
    process.kill(who === 'all' ? group : (dev.pid ?? 0), signal)
    const isGone = () =>
      fetch(`${url}/health/live`).then(
        () => false,
        () => true,
      )
    await until('the end of the service', isGone, 10_000)
  })
}
