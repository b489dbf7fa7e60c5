/** The master that a set of Sentinels watches, as options of ioredis. */
export interface SentinelAddress {
  sentinels: { host: string; port: number }[]
  /** name of the master, as given to `sentinel monitor` */
  name: string
  db: number
  username?: string
  password?: string
  sentinelUsername?: string
  sentinelPassword?: string
}

const SENTINEL_PORT = 26379
/** The user and password of Redis, the Sentinels, the master's name, the parameters. */
const SENTINEL_URL = /^sentinel:\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/([^/?#]+)(?:\?([^#]*))?$/
/** A host or an address, IPv6 in brackets, and a port. */
const ENDPOINT = /^(\[[0-9a-fA-F:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/
const PARAMETERS = ['db', 'sentinelUsername', 'sentinelPassword']

export function isSentinelUrl(url: string): boolean {
  return url.startsWith('sentinel://')
}

/**
 * Reads `sentinel://[user:password@]host[:26379][,host…]/name[?db=0&sentinelUsername=…&sentinelPassword=…]`. User and
 * password are for Redis. `URL` cannot parse a list of hosts.
 * @returns null if it is not such a URL
 */
export function parseSentinelUrl(url: string): SentinelAddress | null {
  const [, login = '', hosts = '', name = '', query = ''] = SENTINEL_URL.exec(url) ?? []
  const sentinels = hosts.split(',').map(parseEndpoint)
  const parameters = new URLSearchParams(query)
  const db = parameters.get('db') ?? '0'
  if (!sentinels.every((endpoint) => endpoint !== null) || !/^\d{1,5}$/.test(db)) return null
  if ([...parameters.keys()].some((key) => !PARAMETERS.includes(key))) return null
  const colon = login.indexOf(':')
  try {
    return {
      sentinels,
      name: decodeURIComponent(name),
      db: Number(db),
      ...given('username', decodeURIComponent(colon === -1 ? login : login.slice(0, colon))),
      ...given('password', colon === -1 ? '' : decodeURIComponent(login.slice(colon + 1))),
      ...given('sentinelUsername', parameters.get('sentinelUsername')),
      ...given('sentinelPassword', parameters.get('sentinelPassword')),
    }
  } catch {
    // It contains an invalid percent escape.
    return null
  }
}

function parseEndpoint(text: string): { host: string; port: number } | null {
  const [, host, port] = ENDPOINT.exec(text) ?? []
  const number = Number(port ?? SENTINEL_PORT)
  if (host === undefined || number < 1 || number > 65535) return null
  return { host: host.replace(/^\[|\]$/g, ''), port: number }
}

function given<Name extends string>(name: Name, value: string | null): { [key in Name]?: string } {
  return value ? ({ [name]: value } as { [key in Name]: string }) : {}
}
