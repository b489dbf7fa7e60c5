import type { IncomingMessage } from 'node:http'
import type { VendorPrefix } from '../contract/vendor-prefixes.js'
import { hasTwoHosts } from './socket/head-limits.js'

/** The paths that are served on every host. */
const OF_EVERY_HOST = /^\/health(?:[/?]|$)/
const ABSOLUTE = /^https?:\/\/([^/?#]*)(.*)$/i
const PORT = /:\d*$/

/**
 * For clients that drop the path of the configured address: on these hosts, a vendor's paths are at the root.
 * @param prefixes by the names of the hosts, in lower case
 * @returns the URL by which a request is routed
 */
export function routeByHost(
  prefixes: ReadonlyMap<string, VendorPrefix>,
): (request: Pick<IncomingMessage, 'url' | 'headers' | 'rawHeaders'>) => string {
  return ({ url = '/', headers, rawHeaders }) => {
    const [, authority, path = ''] = ABSOLUTE.exec(url) ?? []
    // A request that names several hosts matches none of them.
    const host = authority ?? (hasTwoHosts({ rawHeaders }) ? undefined : headers.host)
    const prefix = host === undefined ? undefined : prefixes.get(parseHostName(host))
    const target = authority === undefined ? url : path.startsWith('/') ? path : `/${path}`
    if (prefix === undefined || !target.startsWith('/') || OF_EVERY_HOST.test(target)) return url
    // The SDK may also be configured with the prefix.
    return isBelow(target, prefix) ? target : prefix + target
  }
}

/** The host without user, port and the dot of a fully qualified name. */
function parseHostName(authority: string): string {
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  return host.replace(PORT, '').replace(/\.$/, '').toLowerCase()
}

function isBelow(target: string, prefix: string): boolean {
  if (!target.startsWith(prefix)) return false
  const next = target[prefix.length]
  return next === undefined || next === '/' || next === '?'
}
