import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * Whether a text is a list of addresses and networks (CIDR), separated by commas, as Fastify's `trustProxy` takes it. Neither
 * "all" nor a number of proxies is offered: then everybody who reaches the service itself could name any address as theirs.
 */
export function isProxyList(text: string): boolean {
  return text.split(',').every((part) => {
    const [, address = '', prefix] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(part.trim()) ?? []
    const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
    const length = prefix === undefined ? bits : Number(prefix)
    return length > 0 && length <= bits
  })
}

/** Who sends a request, as far as the proxies that are trusted know it; what they write may be no address. */
export function clientAddress({ ip, socket }: FastifyRequest): string {
  return isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip
}
