import cluster from 'node:cluster'
import type { AddressInfo } from 'node:net'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { type AppOptions, buildApp } from './app.js'
import { type Config, ConfigError, loadConfig } from './config.js'
import type { KeyPair } from './keys.js'
import { openLog } from './log.js'
import { WorkerSide, Workers } from './workers.js'

/** A close that takes longer than this is given up; what was answered is in the journal. */
const CLOSE_LIMIT_MS = 4_500

/** Everything in this process; or what WORKERS needs several of, where it is one of them. */
async function serve(config: Config): Promise<void> {
  const greeting = new Greeting()
  const options: AppOptions = cluster.isWorker
    ? {
        shareFigures: (own) => {
          const side = new WorkerSide(own)
          return () => side.figuresOfAll()
        },
      }
    : { onNewKeys: (pair) => greeting.tellKeys(pair) }
  const log = await openLog(config.LOG_LEVEL)
  const lifetime = new Lifetime(log)
  const server = await buildApp(config, { ...options, log, onFatal: (error) => lifetime.fail(error) })
  lifetime.endWith(() => server.close())
  await listen(server, config)
  if (!cluster.isWorker) greeting.tell(server.server.address() as AddressInfo)
}

/** @throws Error that names the settings */
async function listen(server: FastifyInstance, { HOST, PORT }: Config): Promise<void> {
  try {
    await server.listen({ host: HOST, port: PORT })
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const advice = 'Set another HOST or PORT, or end what listens there'
    throw new Error(`HOST=${HOST} and PORT=${PORT} cannot be listened at. ${advice}. (${reason})`, { cause })
  }
}

/** Requests are answered by other processes; this one owns the embedded engine, where there is one, and is the writer. */
async function serveByWorkers(config: Config): Promise<void> {
  const greeting = new Greeting()
  const log = await openLog(config.LOG_LEVEL)
  let clickhouseUrl = ''
  let figures = async () => ''
  const lifetime = new Lifetime(log)
  const onFatal = (error: unknown) => lifetime.fail(error)
  const server = await buildApp(
    { ...config, ROLE: 'writer' },
    {
      log,
      onFatal,
      onNewKeys: (pair) => greeting.tellKeys(pair),
      onClickHouse: (url) => {
        clickhouseUrl = url
      },
      shareFigures: (own) => {
        figures = own
        return own
      },
    },
  )
  const env = { WORKERS: '1', ROLE: 'api', CLICKHOUSE_URL: clickhouseUrl }
  const workers = new Workers({ count: config.WORKERS, env, log, figures: () => figures(), onFatal })
  lifetime.endWith(async () => {
    await workers.close()
    await server.close()
  })
  try {
    greeting.tell(await workers.start())
  } catch (error) {
    lifetime.fail(error)
  }
}

/** How the process ends: with code 0 when it is asked to, with 1 where it cannot go on. */
class Lifetime {
  readonly #log: FastifyBaseLogger
  #close: (() => Promise<unknown>) | null = null
  #isEnding = false

  constructor(log: FastifyBaseLogger) {
    this.#log = log
  }

  /** From here on, a signal lets `close` come to its end first. */
  endWith(close: () => Promise<unknown>): void {
    this.#close = close
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => this.#end(0))
  }

  fail(error: unknown): void {
    this.#log.fatal({ err: error }, 'the service cannot go on')
    void this.#end(1)
  }

  async #end(code: number): Promise<void> {
    // Ctrl-C under npm sends the signal twice.
    if (this.#isEnding) return
    this.#isEnding = true
    setTimeout(() => process.exit(1), CLOSE_LIMIT_MS).unref()
    await this.#close?.()
    process.exit(code)
  }
}

/** What the start prints. Keys that are made only later, as ClickHouse was away, are printed then. */
class Greeting {
  #keys: KeyPair | null = null
  #isTold = false

  tellKeys(pair: KeyPair): void {
    this.#keys = pair
    if (this.#isTold) console.log(keysText(pair))
  }

  tell(address: AddressInfo): void {
    this.#isTold = true
    console.log(welcome(address, this.#keys))
  }
}

function welcome({ address, family, port }: AddressInfo, newKeys: KeyPair | null): string {
  const everywhere = address === '0.0.0.0' || address === '::'
  const host = everywhere ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
  const url = `http://${host}:${port}`
  const secret = newKeys?.secretKey ?? '$SECRET_KEY'
  return `
Tallyhouse serves at ${url}
${newKeys ? keysText(newKeys) : '\nThe keys are those of the environment or of an earlier start.\n'}
Try it:

  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/track -d '{"event":"signed up","distinct_id":"ada","properties":{"plan":"pro"}}'
  curl -H 'content-type: application/json' -H "x-api-key: ${secret}" ${url}/public/users/identify -d '{"distinct_id":"ada","properties":{"name":"Ada"}}'
  curl -H "x-api-key: ${secret}" '${url}/public/events?limit=10'
`
}

function keysText({ publicKey, secretKey }: KeyPair): string {
  return `
This is the first start, so a pair of keys was made. They are shown only now:

  PUBLIC_API_KEY=${publicKey}
  SECRET_KEY=${secretKey}
`
}

try {
  const config = loadConfig()
  await (config.WORKERS > 1 ? serveByWorkers(config) : serve(config))
} catch (error) {
  if (error instanceof ConfigError) console.error(error.message)
  else console.error(error instanceof Error ? `The start failed: ${error.message}` : error)
  process.exit(1)
}
