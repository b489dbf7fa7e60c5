import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { urlToHttpOptions } from 'node:url'
import type { FetchHeaders } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import { VERSION } from '../../version.js'
import { notHttp } from './framing.js'
import { HeaderFields } from './header-fields.js'

/** Ends the head of a response. */
const HEAD_END = '\r\n\r\n'
const MAX_HEAD_BYTES = 64 * 1024
/** Responses are not decompressed here, and some firewalls refuse requests without a user agent. */
const OWN_FIELDS = `accept-encoding: identity\r\nuser-agent: tallyhouse/${VERSION}\r\n`
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?(?=\r\n|$)/
/** Matches a line without a field name. */
const NAMELESS = /\r\n(?![^:\r\n]+:)/
const NOT_OF_A_VALUE = /[^\t -~\x80-\xff]/

/** The head of a response. */
export interface Head {
  status: number
  headers: FetchHeaders
  /** whether the connection can be used again */
  isLasting: boolean
}

/** Connects to the server of a URL, with TLS for https. */
export function openSocket(url: URL, options: Partial<NetConnectOpts> = {}): Socket {
  const { hostname, port } = urlToHttpOptions(url)
  const isSecure = url.protocol === 'https:'
  const address = { ...options, host: hostname ?? '', port: Number(port || (isSecure ? 443 : 80)) }
  return isSecure ? connectTls({ ...address, servername: toServerName(hostname) }) : connect(address)
}

/** Returns the server name for TLS; empty for an IP address, which is not a name. */
function toServerName(hostname: string | null | undefined): string {
  return hostname && !/^[\d.]+$|:/.test(hostname) ? hostname : ''
}

/**
 * @param length of the body in bytes, if there is one
 * @returns Latin-1
 * @throws TypeError for a header that cannot be sent
 */
export function requestHead(method: string, url: URL, headers: Record<string, string>, length?: number): string {
  let head = `${method} ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n${OWN_FIELDS}`
  for (const [name, value] of Object.entries(headers)) {
    if (NOT_OF_A_VALUE.test(value)) throw new TypeError(`the header ${name} contains an invalid character`)
    head += `${name}: ${value}\r\n`
  }
  return length === undefined ? `${head}\r\n` : `${head}content-length: ${length}\r\n\r\n`
}

/** Reads the head of a response, which arrives in pieces. */
export class HeadReader {
  #text = ''

  /**
   * @returns the head, and where the body begins in these bytes; null if the head is not complete yet
   * @throws Error if this is not a response, or the head is too long; TallyhouseError if a proxy compressed the response
   */
  take(bytes: Buffer): { head: Head; bodyStart: number } | null {
    /** where #text begins in the bytes */
    let start = -this.#text.length
    this.#text += bytes.toString('latin1')
    for (let end = this.#text.indexOf(HEAD_END); end !== -1; end = this.#text.indexOf(HEAD_END)) {
      const head = parseHead(this.#text.slice(0, end))
      start += end + HEAD_END.length
      // After an interim response, the final one follows.
      this.#text = head.status < 200 ? this.#text.slice(end + HEAD_END.length) : ''
      if (head.status >= 200) return { head, bodyStart: start }
    }
    if (!'HTTP/'.startsWith(this.#text.slice(0, 5))) throw notHttp('no status')
    if (this.#text.length > MAX_HEAD_BYTES) throw notHttp('too many headers')
    return null
  }
}

/** @param text the head without HEAD_END */
function parseHead(text: string): Head {
  const [first = '', version, status] = STATUS_LINE.exec(text) ?? []
  if (status === undefined) throw notHttp('no status')
  const fields = text.slice(first.length)
  if (NAMELESS.test(fields)) throw notHttp('a header without a name')
  const headers = new HeaderFields(fields)
  const isLasting = version === '1' && !/\bclose\b/i.test(headers.get('connection') ?? '')
  refuseCompressed(Number(status), headers)
  return { status: Number(status), headers, isLasting }
}

function refuseCompressed(status: number, headers: FetchHeaders): void {
  const codings = [headers.get('content-encoding') ?? 'identity', headers.get('transfer-encoding') ?? 'chunked']
  const coding = codings.find((one) => !/^(identity|chunked)?$/i.test(one))
  if (coding === undefined) return
  const message = `The response, with status ${status}, is compressed (${coding}). Check the proxies in front of the service.`
  throw new TallyhouseError('compressed', message, { status })
}
