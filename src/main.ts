import cluster from 'node:cluster'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type AppOptions, buildApp } from './app.js'
import { type Config, ConfigError, loadConfig } from './config.js'
import { failureText } from './lib/failure-text.js'
import { openLog } from './lib/log.js'
import { Greeting } from './process/greeting.js'
import { Lifetime } from './process/lifetime.js'
import { WorkerSide, Workers } from './process/workers.js'

/** Everything in this process; or what WORKERS needs several of, where it is one of them. */
async function serve(config: Config): Promise<void> {
  const greeting = new Greeting(config)
  const options: AppOptions = cluster.isWorker
    ? {
        shareMetrics: (own) => {
          const side = new WorkerSide(own)
          return () => side.figuresOfAll()
        },
      }
    : { onKeys: (keys) => greeting.onKeys(keys) }
  const log = await openLog(config.LOG_LEVEL)
  const lifetime = new Lifetime(log)
  const server = await buildApp(config, { ...options, log, onFatal: (error) => lifetime.fail(error) })
  lifetime.endWith(() => server.close())
  await listen(server, config)
  if (!cluster.isWorker) await greeting.print(server.server.address() as AddressInfo)
}

/** @throws Error that names the settings */
async function listen(server: FastifyInstance, config: Config): Promise<void> {
  try {
    await server.listen({ host: config.HOST, port: config.PORT })
  } catch (error) {
    throw cannotListen(config, error)
  }
}

/** Before the workers are started, each of which would end for this reason. @throws as `listen` */
async function checkAddress(config: Config): Promise<void> {
  const server = createServer().listen({ host: config.HOST, port: config.PORT })
  try {
    await once(server, 'listening')
  } catch (error) {
    throw cannotListen(config, error)
  }
  server.close()
  await once(server, 'close')
}

function cannotListen({ HOST, PORT }: Config, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const advice = 'Set another HOST or PORT, or end what listens there'
  return new Error(`HOST=${HOST} and PORT=${PORT} cannot be listened at. ${advice}. (${reason})`, { cause })
}

/** Requests are answered by other processes; this one owns the embedded engine, where there is one, and is the writer. */
async function serveByWorkers(config: Config): Promise<void> {
  await checkAddress(config)
  const greeting = new Greeting(config)
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
      onKeys: (keys) => greeting.onKeys(keys),
      onClickHouse: (url) => {
        clickhouseUrl = url
      },
      shareMetrics: (own) => {
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
    await greeting.print(await workers.start())
  } catch (error) {
    lifetime.fail(error)
  }
}

try {
  const config = loadConfig()
  await (config.WORKERS > 1 ? serveByWorkers(config) : serve(config))
} catch (error) {
  if (error instanceof ConfigError) console.error(error.message)
  else console.error(`The start failed: ${failureText(error)}`)
  process.exit(1)
}
