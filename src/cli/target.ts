import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Config, loadConfig } from '../config.js'
import { type CommandIo, UsageError } from './command.js'

/** The service that a command talks to. */
export interface Target {
  url: string
  secretKey: string
  /** tells whether two keys are the same, without revealing them */
  keyDigest: string
  config: Config
}

/** How the options of `readTarget` are described to users. */
export const TARGET_USAGE = `  --url URL          address of the service (default: http://HOST:PORT from the settings)
  --key-file FILE    a file that contains the secret key (default: the variable SECRET_KEY); no
                     option takes the key itself, as other users of the machine could read it`

/**
 * @throws UsageError if there is no key, or the URL is not valid
 * @throws ConfigError if a setting is not valid
 */
export async function readTarget(values: { url?: string; 'key-file'?: string }, io: CommandIo): Promise<Target> {
  const config = loadConfig(io.env)
  const url = urlOf(values.url ?? addressOf(config))
  const file = values['key-file']
  const secretKey = file === undefined ? config.SECRET_KEY : (await readFile(file, 'utf8')).trim()
  if (!secretKey) {
    throw new UsageError('The secret key is missing. Set SECRET_KEY, or name a file that contains it with --key-file.')
  }
  return { url, secretKey, keyDigest: digest(secretKey), config }
}

/**
 * @returns the URL without slashes at its end
 * @throws UsageError
 */
export function urlOf(given: string): string {
  const url = given.replace(/\/+$/, '')
  if (!URL.canParse(url) || !/^https?:/.test(url)) throw new UsageError(`--url must be like http://127.0.0.1:3000.`)
  return url
}

/**
 * The address of a service with these settings, on this machine.
 * @throws ConfigError if a setting is not valid
 */
export function defaultUrl(env: NodeJS.ProcessEnv): string {
  return addressOf(loadConfig(env))
}

/** A service that listens on all addresses is reached on the loopback one. */
function addressOf({ HOST, PORT }: Config): string {
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST
  return `http://${host}:${PORT}`
}

function digest(key: string): string {
  return createHash('sha256').update(`tallyhouse ${key}`).digest('hex').slice(0, 16)
}
