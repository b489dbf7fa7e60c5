import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { ContextMode } from '../contract/context.js'
import { RecentValues } from '../lib/recent-values.js'
import { type MessageSource, type RequestContext, toRequestContext } from '../model/request-context.js'
import { isPersonal, readAgent } from './agent.js'
import { findCountryOfZone, readCountryCode } from './country.js'
import type { GeoDatabase, Place } from './geo-database.js'

/** What says who sent a request. */
export interface RequestSource {
  headers: IncomingHttpHeaders
  /** of the client, as trusted proxies report it */
  address: string
  /** of the other end of the connection */
  peer: string
  /** IANA zone of the browser; anybody's text */
  timezone: unknown
}

export interface ContextsOptions {
  /** how much a project keeps */
  mode(projectId: string): ContextMode
  /** headers in which a trusted proxy names the country, best first */
  countryHeaders: readonly string[]
  /** addresses and networks of the trusted proxies */
  proxies: readonly string[]
  geo: Pick<GeoDatabase, 'find'> | null
}

/** Different senders of whom the context is remembered. */
const MAX_REMEMBERED = 5_000
/** Characters of a header that are looked at. */
const MAX_HEADER = 512
/** BCP 47, as far as browsers use it. */
const LANGUAGE = /^\s*([a-z]{2,3}(?:-[a-z\d]{2,8}){0,3})\s*(?:[,;]|$)/i
const NO_PLACE: Place = {}

/**
 * Finds the contexts of requests. No address is kept: a context is remembered by what is stored of it and by the
 * browser's own headers.
 */
export class Contexts {
  readonly #options: ContextsOptions
  readonly #proxies = new BlockList()
  readonly #known = new RecentValues<{ context: RequestContext | null }>(MAX_REMEMBERED)

  constructor(options: ContextsOptions) {
    this.#options = options
    for (const proxy of options.proxies) {
      const [address = '', prefix] = proxy.split('/')
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
      if (prefix === undefined) this.#proxies.addAddress(address, family)
      else this.#proxies.addSubnet(address, Number(prefix), family)
    }
  }

  /** The context of a request; null if it says nothing, or the project keeps nothing of it. */
  find(projectId: string, source: RequestSource): RequestContext | null {
    const mode = this.#options.mode(projectId)
    if (mode === 'off') return null
    const { headers } = source
    return this.#recall(headers['user-agent'] ?? '', headers, {
      language: readLanguage(headers['accept-language']),
      place: mode === 'full' ? this.#place(source) : NO_PLACE,
    })
  }

  /** Like `find`, for a message of a vendor's SDK. */
  findOfMessage(projectId: string, source: RequestSource, said: MessageSource): RequestContext | null {
    const mode = this.#options.mode(projectId)
    if (mode === 'off') return null
    const own = source.headers['user-agent'] ?? ''
    // The library of a server says nothing about the person for whom it sends.
    const request = isPersonal(own) ? source : { ...source, headers: {}, address: '' }
    const { userAgent = request.headers['user-agent'], address } = said
    const from = {
      ...request,
      ...(address !== undefined && { address: address ?? '', headers: {} }),
      timezone: said.timezone ?? request.timezone,
    }
    const headers = said.userAgent === undefined ? request.headers : {}
    return this.#recall((userAgent ?? '').replace(CONTROL, ' '), headers, {
      language: readLanguage(said.language) || readLanguage(request.headers['accept-language']),
      place: mode === 'full' ? this.#place(from) : NO_PLACE,
    })
  }

  #recall(
    userAgent: string,
    headers: IncomingHttpHeaders,
    { language, place }: { language: string; place: Place },
  ): RequestContext | null {
    const name = userAgent.slice(0, MAX_HEADER)
    const brands = readHeader(headers, 'sec-ch-ua')
    const mobile = readHeader(headers, 'sec-ch-ua-mobile')
    const platform = readHeader(headers, 'sec-ch-ua-platform')
    const platformVersion = readHeader(headers, 'sec-ch-ua-platform-version')
    const { country = '', region = '', city = '' } = place
    // No header has a line break, so different senders have different keys.
    const key = `${name}\n${brands}\n${mobile}\n${platform}\n${platformVersion}\n${language}\n${country}\n${region}\n${city}`
    const known = this.#known.get(key)
    if (known) return known.context
    const agent = readAgent({ name, brands, mobile, platform, platformVersion })
    const context = toRequestContext({ ...agent, ...place, language })
    this.#known.set(key, { context })
    return context
  }

  /** The best that is known: of the database, else of a proxy, else of the time zone. */
  #place({ headers, address, peer, timezone }: RequestSource): Place {
    const { geo, countryHeaders } = this.#options
    const place = geo?.find(address) ?? NO_PLACE
    if (place.country) return place
    const country =
      (countryHeaders.length > 0 && this.#readCountry(headers, peer)) ||
      (typeof timezone === 'string' ? findCountryOfZone(timezone) : undefined)
    return country ? { country } : NO_PLACE
  }

  #readCountry(headers: IncomingHttpHeaders, peer: string): string | undefined {
    for (const name of this.#options.countryHeaders) {
      const code = readCountryCode(headers[name])
      if (code) return this.#isProxy(peer) ? code : undefined
    }
    return undefined
  }

  #isProxy(peer: string): boolean {
    return this.#proxies.check(peer, isIP(peer) === 6 ? 'ipv6' : 'ipv4')
  }
}

/** Control characters, which no header can have. */
const CONTROL = /\p{Cc}/gu

function readHeader(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name]
  return typeof value === 'string' ? value.slice(0, MAX_HEADER) : ''
}

/** The first language of Accept-Language, or of a locale such as `de_AT`; empty if there is none. */
function readLanguage(text: string | undefined): string {
  const [, tag = ''] = LANGUAGE.exec((text ?? '').slice(0, MAX_HEADER).replace('_', '-')) ?? []
  if (tag === '') return ''
  const [language = '', ...parts] = tag.split('-')
  const written = parts.map((part) => {
    if (part.length === 2) return part.toUpperCase()
    return part.length === 4 ? part.charAt(0).toUpperCase() + part.slice(1).toLowerCase() : part
  })
  return [language.toLowerCase(), ...written].join('-')
}
