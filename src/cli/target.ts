import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Config, loadConfig } from '../config.js'
import { type CommandIo, UsageError } from './command.js'

/** The service that a command talks to. */
export interface Target {
  url: string
  secretKey: string
  /** what tells the key from others, without telling it */
  keyDigest: string
  config: Config
}

/** How the options of `readTarget` are described to users. */
export const TARGET_USAGE = `  --url URL          where the service is; http://HOST:PORT of the settings where it is not given
  --key-file FILE    a file that holds the secret key; the variable SECRET_KEY where it is not given (an argument would be
                     seen by every user of the machine)`

/**
 * @throws UsageError where there is no key, or no such URL
 * @throws ConfigError where a setting cannot be used
 */
export async function readTarget(values: { url?: string; 'key-file'?: string }, io: CommandIo): Promise<Target> {
  const config = loadConfig(io.env)
  const url = (values.url ?? usualUrl(config)).replace(/\/+$/, '')
  if (!URL.canParse(url) || !/^https?:/.test(url)) throw new UsageError(`--url must be like http://127.0.0.1:3000.`)
  const file = values['key-file']
  const secretKey = file === undefined ? config.SECRET_KEY : (await readFile(file, 'utf8')).trim()
  if (!secretKey) {
    throw new UsageError('The secret key is missing. Set SECRET_KEY, or name a file that holds it with --key-file.')
  }
  return { url, secretKey, keyDigest: digest(secretKey), config }
}

/** A service that listens everywhere is reached at this machine's own address. */
function usualUrl({ HOST, PORT }: Config): string {
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST
  return `http://${host}:${PORT}`
}

function digest(key: string): string {
  return createHash('sha256').update(`tallyhouse ${key}`).digest('hex').slice(0, 16)
}
