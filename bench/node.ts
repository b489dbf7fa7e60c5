import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { USER } from '../src/clickhouse/embedded/engine-config.js'
import { freePort } from '../src/lib/free-port.js'
import { Store } from './store.js'

/** Shards read from each other with the user and password of their URLs. */
const PASSWORD = 'of-all-shards'
const LISTEN_LIMIT_MS = 20_000
const POLL_MS = 20

/** Starts a ClickHouse that others can read from by the native protocol, as shards do. */
export async function startNode(path: string): Promise<EmbeddedClickHouse> {
  const nativePort = await freePort()
  await configure(path, nativePort)
  // After a restart it listens only for HTTP.
  const info = (_details: unknown, message?: string) => {
    if (message?.endsWith('up again')) untilListening(engine.url, nativePort).catch(console.error)
  }
  const engine = await startEmbeddedClickHouse({
    path,
    password: PASSWORD,
    log: { info, warn() {}, error: console.error },
  })
  await untilListening(engine.url, nativePort)
  return engine
}

/** ClickHouse merges the files of `conf.d` into the configuration that the service writes. */
async function configure(path: string, nativePort: number): Promise<void> {
  const grants = ['GRANT ALL ON *.*', 'REVOKE SOURCES ON *.*', 'GRANT REMOTE ON *.*']
  const queries = grants.map((grant) => `<query>${grant}</query>`).join('')
  const users = `<users><${USER}><grants replace="replace">${queries}</grants></${USER}></users>`
  const folder = join(path, 'conf.d')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'node.xml'), `<clickhouse><tcp_port>${nativePort}</tcp_port>${users}</clickhouse>`)
}

async function untilListening(url: string, nativePort: number): Promise<void> {
  const store = new Store(url)
  const deadline = Date.now() + LISTEN_LIMIT_MS
  for (;;) {
    try {
      await store.text('SYSTEM START LISTEN TCP')
      await store.text(`SELECT 1 FROM remote('127.0.0.1:${nativePort}', system.one, '${USER}', '${PASSWORD}')`)
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
    await wait(POLL_MS)
  }
}
