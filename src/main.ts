import cluster from 'node:cluster'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { type App, type AppOptions, buildApp } from './app.js'
import { type Config, ConfigError, loadConfig } from './config.js'
import { failureText } from './lib/failure-text.js'
import { openLog } from './lib/log.js'
import type { Metric } from './metrics/metric.js'
import { Greeting } from './process/greeting.js'
import { Lifetime } from './process/lifetime.js'
import { WorkerChannel, Workers } from './process/workers.js'

/** Serves in this process, which may be one of several workers. */
async function serve(config: Config): Promise<void> {
  const greeting = new Greeting(config)
  const log = await openLog(config.LOG_LEVEL)
  const options: AppOptions = cluster.isWorker
    ? {
        shareMetrics: (own) => {
          const channel = new WorkerChannel(own, log)
          return () => channel.collectMetrics()
        },
      }
    : { onKeys: (keys) => greeting.onKeys(keys) }
  const lifetime = new Lifetime(log)
  const server = await buildApp(config, { ...options, log, onFatal: (error) => lifetime.fail(error) })
  lifetime.endWith(() => server.close())
  await listen(server, config)
  if (!cluster.isWorker) await greeting.print(server.server.address() as AddressInfo)
}

/** @throws Error that names the settings */
async function listen(server: App, config: Config): Promise<void> {
  try {
    await server.listen(toAddress(config))
  } catch (error) {
    throw cannotListen(config, error)
  }
}

/** For localhost, Fastify would start a second server for ::1, which lacks our connection limits. */
function toAddress({ HOST, PORT }: Config): { host: string; port: number } {
  return { host: HOST === 'localhost' ? '127.0.0.1' : HOST, port: PORT }
}

/**
 * Checks once, before the workers start, whether the address can be used: otherwise each worker would fail for the same
 * reason.
 * @throws like `listen`
 */
async function checkAddress(config: Config): Promise<void> {
  const server = createServer().listen(toAddress(config))
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
  const advice = 'Set another HOST or PORT, or stop the process that uses them'
  return new Error(`Cannot listen on HOST=${HOST} and PORT=${PORT}. ${advice}. (${reason})`, { cause })
}

/**
 * Starts workers that serve the requests. This process runs the writer, and the embedded engine if
 * there is one.
 */
async function serveByWorkers(config: Config): Promise<void> {
  await checkAddress(config)
  const greeting = new Greeting(config)
  const log = await openLog(config.LOG_LEVEL)
  let clickhouseUrl = ''
  let metrics = async (): Promise<Metric[]> => []
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
        metrics = own
        return own
      },
    },
  )
  const first = config.HOME_LANE ?? 0
  const env = (place: number) => ({
    ...{ WORKERS: '1', ROLE: 'api', CLICKHOUSE_URL: clickhouseUrl },
    // Each worker prefers a different lane, if there are enough.
    HOME_LANE: String((first + place - 1) % config.LANES),
  })
  const workers = new Workers({ count: config.WORKERS, env, log, metrics: () => metrics(), onFatal })
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

/** Arguments that `tallyhouse serve` and `npm start` pass. */
const OWN_ARGUMENT = /^(serve|--parent=\d+)$/

/** @throws ConfigError for any other argument, which would be ignored */
function refuseArguments(): void {
  const unknown = process.argv.slice(2).find((argument) => !OWN_ARGUMENT.test(argument))
  if (unknown === undefined) return
  const advice = 'Set the variables that docs/settings.md lists, for example PORT=4000 npm start'
  throw new ConfigError(`The service takes no arguments, but got ${unknown}. ${advice}.`)
}

try {
  refuseArguments()
  const config = loadConfig()
  await (config.WORKERS > 1 ? serveByWorkers(config) : serve(config))
} catch (error) {
  if (error instanceof ConfigError) console.error(error.message)
  else console.error(`The service could not start: ${failureText(error)}`)
  process.exit(1)
}
