import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { freePort, type RedisServer, type Scope, startRedis, temporaryFolder, until } from './helper.js'

/**
 * A master with the name `s/cret`, a replica, and a Sentinel that considers the master dead after half a second and
 * promotes the replica.
 */
export async function startSentinel(t: Scope): Promise<{ master: RedisServer; port: number; sentinel: Redis }> {
  const auth = ['--requirepass', 's/cret', '--masterauth', 's/cret', '--repl-diskless-sync-delay', '0']
  const master = await startRedis(t, auth)
  await startRedis(t, [...auth, '--replicaof', '127.0.0.1', new URL(master.url).port])
  const port = await freePort()
  const file = `${await temporaryFolder(t)}/sentinel.conf`
  const { hostname, port: masterPort } = new URL(master.url)
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `sentinel monitor main ${hostname} ${masterPort} 1`,
    'sentinel auth-pass main s/cret',
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 2000',
  ]
  await writeFile(file, lines.join('\n'))
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const sentinel = new Redis({ port, retryStrategy: () => 50 })
  sentinel.on('error', () => undefined)
  t.teardown(() => sentinel.disconnect())
  await until('the Sentinel to know the replica', async () => {
    const replicas = (await sentinel.call('SENTINEL', 'replicas', 'main').catch(() => [])) as string[][]
    return replicas.some((fields) => fields[fields.indexOf('master-link-status') + 1] === 'ok')
  })
  return { master, port, sentinel }
}
