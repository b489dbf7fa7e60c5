import { readFile } from 'node:fs/promises'
import type { Config } from '../config.js'
import { withPath } from '../lib/failure-text.js'
import { type CommandIo, UsageError } from './command.js'

/** The service that a command talks to. */
export interface Target {
  url: string
  secretKey: string
}

/** The options that `readTarget` reads. */
export const TARGET_OPTIONS = { url: { type: 'string' }, 'key-file': { type: 'string' } } as const

export interface TargetOptions {
  url?: string
  'key-file'?: string
}

/** The help text of these options. */
export const TARGET_USAGE = `  --url URL          address of the service (default: http://HOST:PORT from the settings)
  --key-file FILE    a file that contains the secret key (default: the variable SECRET_KEY); no
                     option takes the key itself, because other users could read it`

/** The same, for commands that only read. */
export const READ_TARGET_USAGE = `${TARGET_USAGE}. A
                     read key is enough`

/**
 * @throws UsageError if there is no key, or the URL is not valid
 * @throws ConfigError if a setting is needed and one is not valid
 */
export async function readTarget(values: TargetOptions, io: CommandIo): Promise<Target> {
  const url = normalizeUrl(values.url ?? (await defaultUrl(io.env)))
  const file = values['key-file']
  // With an explicit URL, no other setting matters, and the service checks the key.
  const given = values.url === undefined ? undefined : io.env.SECRET_KEY
  const secretKey =
    file === undefined
      ? given || (await readSettings(io.env)).SECRET_KEY
      : (await readFile(file, 'utf8').catch(withPath(file))).trim()
  if (!secretKey) {
    throw new UsageError('The secret key is missing. Set SECRET_KEY, or name a file that contains it with --key-file.')
  }
  if (!/^[ -~]+$/.test(secretKey)) {
    throw new UsageError('The secret key has a character that no key can have, such as a line break.')
  }
  return { url, secretKey }
}

/**
 * Reads the settings. The code that checks them is loaded on demand, because loading it takes longer than a small
 * command.
 * @throws ConfigError if one is not valid
 */
export async function readSettings(env: NodeJS.ProcessEnv): Promise<Config> {
  const { loadConfig } = await import('../config.js')
  return loadConfig(env)
}

/**
 * @returns the URL without trailing slashes
 * @throws UsageError
 */
export function normalizeUrl(given: string): string {
  const url = given.replace(/\/+$/, '')
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new UsageError(`--url must be an address such as http://127.0.0.1:3000.`)
  const { username, password } = new URL(url)
  if (username || password) throw new UsageError('--url must not have a user or a password, because they are not sent.')
  return url
}

/**
 * Returns the local address of a service with these settings.
 * @throws ConfigError if a setting is not valid
 */
export async function defaultUrl(env: NodeJS.ProcessEnv): Promise<string> {
  return formatAddress(await readSettings(env))
}

/** Uses the loopback address for a service that listens on all addresses. */
function formatAddress({ HOST, PORT }: Config): string {
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST
  return `http://${host}:${PORT}`
}
