import type { AddressInfo } from 'node:net'
import { buildApp } from './app.js'
import { type Config, ConfigError, loadConfig } from './config.js'
import type { KeyPair } from './keys.js'
import { openLog } from './log.js'

/** A close that takes longer than this is given up; what was answered is in the journal. */
const CLOSE_LIMIT_MS = 4_500

try {
  await serve(loadConfig())
} catch (error) {
  if (error instanceof ConfigError) console.error(error.message)
  else console.error(error instanceof Error ? `The start failed: ${error.message}` : error)
  process.exit(1)
}

async function serve(config: Config): Promise<void> {
  let newKeys: KeyPair | null = null
  let isServing = false
  const log = await openLog(config.LOG_LEVEL)
  const server = await buildApp(config, {
    log,
    onNewKeys: (pair) => {
      newKeys = pair
      if (isServing) console.log(keysText(pair))
    },
    onFatal: (error) => {
      log.fatal({ err: error }, 'the service cannot go on')
      void end(1)
    },
  })
  let isEnding = false
  async function end(code: number): Promise<void> {
    // Ctrl-C under npm sends the signal twice.
    if (isEnding) return
    isEnding = true
    setTimeout(() => process.exit(1), CLOSE_LIMIT_MS).unref()
    await server.close()
    process.exit(code)
  }
  process.on('SIGTERM', () => end(0))
  process.on('SIGINT', () => end(0))

  await server.listen({ host: config.HOST, port: config.PORT })
  isServing = true
  console.log(welcome(server.server.address() as AddressInfo, newKeys))
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
