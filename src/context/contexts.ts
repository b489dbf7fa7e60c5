import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { type ContextMode, spellLanguage } from '../contract/context.js'
import { RecentValues } from '../lib/recent-values.js'
import { type MessageSource, type RequestContext, toRequestContext } from '../model/request-context.js'
import { type AgentContext, isPersonal, readAgent } from './agent.js'
import { findCountryOfZone, readCountryCode } from './country.js'
import type { GeoDatabase, Place } from './geo-database.js'

/** The parts of a request that say who sent it. */
export interface RequestSource {
  headers: IncomingHttpHeaders
  /** of the client, as trusted proxies report it */
  address: string
  /** of the other end of the connection */
  peer: string
  /** IANA zone of the browser; may be any text */
  timezone: unknown
}

export interface ContextsOptions {
  /** how much of a context a project keeps */
  mode(projectId: string): ContextMode
  /** headers in which a trusted proxy names the country, best first */
  countryHeaders: readonly string[]
  /** addresses and networks of the trusted proxies */
  proxies: readonly string[]
  geo: Pick<GeoDatabase, 'find'> | null
}

/** Maximum number of remembered contexts; beyond it, all are forgotten. */
const MAX_CONTEXTS = 20_000
/**
 * Contexts of requests with more characters in their headers are not remembered. Those of browsers have a few hundred.
 */
const MAX_REMEMBERED = 1_024
/** Maximum number of remembered agents. Parsing them takes longest, so they are remembered for longer. */
const MAX_AGENTS = 2_000
/** Characters of a header that are read. */
const MAX_HEADER = 512
/** The part of BCP 47 that browsers use. */
const LANGUAGE = /^\s*([a-z]{2,3}(?:[-_][a-z\d]{2,8}){0,3})\s*(?:[,;]|$)/i
const NO_PLACE: Place = {}

/** Everything that a context depends on apart from the User-Agent; headers as they were sent. */
interface Parts {
  headers: IncomingHttpHeaders
  language: string
  place: Place
}

/**
 * Finds the contexts of requests. Most take two look-ups, the first by the User-Agent. No address is kept: contexts are
 * cached by their stored fields and the browser's own headers.
 */
export class Contexts {
  readonly #options: ContextsOptions
  readonly #proxies = new BlockList()
  readonly #countryHeaders: readonly string[]
  readonly #agents = new RecentValues<AgentContext>(MAX_AGENTS)
  readonly #known = new Map<string, Map<string, { context: RequestContext | null }>>()
  #count = 0

  constructor(options: ContextsOptions) {
    this.#options = options
    this.#countryHeaders = options.proxies.length > 0 ? options.countryHeaders : []
    for (const proxy of options.proxies) {
      const [address = '', prefix] = proxy.split('/')
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
      if (prefix === undefined) this.#proxies.addAddress(address, family)
      else this.#proxies.addSubnet(address, Number(prefix), family)
    }
  }

  /** The context of a request; null if it says nothing, or the project keeps none of it. */
  find(projectId: string, source: RequestSource): RequestContext | null {
    const mode = this.#options.mode(projectId)
    if (mode === 'off') return null
    const { headers } = source
    return this.#recall(headers['user-agent'] ?? '', {
      headers,
      language: headers['accept-language'] ?? '',
      place: mode === 'full' ? this.#place(source) : NO_PLACE,
    })
  }

  /** Like `find`, for a message of a vendor's SDK. */
  findOfMessage(projectId: string, source: RequestSource, said: MessageSource): RequestContext | null {
    const mode = this.#options.mode(projectId)
    if (mode === 'off') return null
    const own = source.headers['user-agent'] ?? ''
    // A server library says nothing about the person for whom it sends.
    const { peer, timezone } = source
    const request = isPersonal(own) ? source : { headers: {}, address: '', peer, timezone }
    const { userAgent = request.headers['user-agent'], address } = said
    const from = {
      peer,
      address: address === undefined ? request.address : (address ?? ''),
      headers: address === undefined ? request.headers : {},
      timezone: said.timezone ?? timezone,
    }
    return this.#recall((userAgent ?? '').replace(CONTROL, ' '), {
      headers: said.userAgent === undefined ? request.headers : {},
      language: readLanguage(said.language) || (request.headers['accept-language'] ?? ''),
      place: mode === 'full' ? this.#place(from) : NO_PLACE,
    })
  }

  #recall(userAgent: string, parts: Parts): RequestContext | null {
    const { headers, language, place } = parts
    const { country = '', region = '', city = '' } = place
    const hints = `${readHeader(headers, 'sec-ch-ua')}\n${readHeader(headers, 'sec-ch-ua-mobile')}\n${readHeader(headers, 'sec-ch-ua-platform')}\n${readHeader(headers, 'sec-ch-ua-platform-version')}`
    // No part has a line break, so different senders have different keys.
    const key = `${cut(language)}\n${hints}\n${country}\n${region}\n${city}`
    const name = cut(userAgent)
    const known = this.#known.get(name)?.get(key)
    return known ? known.context : this.#make({ name, key, hints }, parts)
  }

  /** Finds a context, and remembers it. */
  #make(
    { name, key, hints }: { name: string; key: string; hints: string },
    { language, place }: Parts,
  ): RequestContext | null {
    const agentKey = `${name}\n${hints}`
    const [brands = '', mobile = '', platform = '', platformVersion = ''] = hints.split('\n')
    const agent = this.#agents.get(agentKey) ?? readAgent({ name, brands, mobile, platform, platformVersion })
    this.#agents.set(agentKey, agent)
    const context = toRequestContext({ ...agent, ...place, language: readLanguage(language) })
    if (name.length + key.length > MAX_REMEMBERED) return context
    if (this.#count === MAX_CONTEXTS) {
      this.#known.clear()
      this.#count = 0
    }
    this.#count++
    const ofAgent = this.#known.get(name)
    if (ofAgent) ofAgent.set(key, { context })
    else this.#known.set(name, new Map([[key, { context }]]))
    return context
  }

  /** The place by the first source that knows it: the database, a proxy, or the time zone. */
  #place(source: RequestSource): Place {
    const { geo } = this.#options
    // The address is not even read if it is not needed.
    const place = geo ? geo.find(source.address) : NO_PLACE
    if (place.country) return place
    const country =
      (this.#countryHeaders.length > 0 && this.#readCountry(source)) ||
      (typeof source.timezone === 'string' ? findCountryOfZone(source.timezone) : undefined)
    return country ? { country } : NO_PLACE
  }

  #readCountry(source: RequestSource): string | undefined {
    for (const name of this.#countryHeaders) {
      const code = readCountryCode(source.headers[name])
      if (code) return this.#isProxy(source.peer) ? code : undefined
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
  return typeof value === 'string' ? cut(value) : ''
}

function cut(text: string): string {
  // Unlike a copy, a slice would keep all of the text in memory.
  return text.length > MAX_HEADER ? Buffer.from(text.slice(0, MAX_HEADER)).toString() : text
}

/** The first language of Accept-Language, or of a locale such as `de_AT`; empty if there is none. */
function readLanguage(text: string | undefined): string {
  const [, tag = ''] = LANGUAGE.exec((text ?? '').slice(0, MAX_HEADER)) ?? []
  return spellLanguage(tag)
}
