import * as http from 'node:http'
import * as https from 'node:https'
import type { Fetch, FetchResponse } from '../client/connection.js'
import { HeaderFields } from './header-fields.js'

/** A `fetch` with keep-alive connections that, unlike Node's, does not copy its bodies: it takes half the CPU time. */
export class HttpTransport {
  readonly #http = new http.Agent({ keepAlive: true })
  readonly #https = new https.Agent({ keepAlive: true })

  /** Does not follow redirects. */
  readonly fetch: Fetch = (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const isSecure = url.startsWith('https:')
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
      const options = { method, headers: { ...headers, ...length }, signal, agent: isSecure ? this.#https : this.#http }
      const request = (isSecure ? https : http).request(url, options)
      request.on('error', reject)
      request.on('response', (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          resolve(toResponse(response, Buffer.concat(chunks)))
        })
      })
      request.end(body)
    })

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

/** Without the streams of a `Response`, which take a fifth of the CPU time of a small call. */
function toResponse(
  { statusCode: status = 0, headers }: http.IncomingMessage,
  bytes: Buffer<ArrayBuffer>,
): FetchResponse {
  const fields = new HeaderFields()
  for (const [name, value] of Object.entries(headers)) fields.append(name, String(value))
  return {
    status,
    headers: fields,
    text: async () => bytes.toString(),
    get body() {
      return new Response(bytes).body
    },
  }
}
