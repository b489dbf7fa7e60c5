import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { gzipSync } from 'node:zlib'

/** The keys of a project, by kind. */
export interface Keys {
  secret: string
  write: string
  read: string
  public: string
}

export interface Call {
  method?: string
  path: string
  key: string
  /** sent as JSON */
  body?: unknown
  /** the gzipped body, instead of `body` */
  gzip?: Buffer
  headers?: Record<string, string>
}

/** The response to a call. */
export interface Answer {
  status: number
  /** bytes of the response's body, or its text if it was asked for */
  bytes: number
  text: string
}

const LIMIT_MS = 120_000

/** A client with its own connections. */
export class Calls {
  readonly #url: URL
  readonly #agent: Agent
  /** number of responses by status; `0` for broken connections */
  readonly statuses: Record<string, number> = {}

  constructor(url: string, connections: number) {
    this.#url = new URL(url)
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections })
  }

  /** @param keepsText whether to return the text of the response. @returns status 0 if the connection broke */
  async call(call: Call, { keepsText = false } = {}): Promise<Answer> {
    const answer = await this.#send(call, keepsText).catch((error: Error) => ({
      status: 0,
      bytes: 0,
      text: error.message,
    }))
    this.statuses[answer.status] = (this.statuses[answer.status] ?? 0) + 1
    return answer
  }

  /** @throws Error if the call is refused */
  async succeed(call: Call): Promise<string> {
    const { status, text } = await this.call(call, { keepsText: true })
    if (status !== 200) throw new Error(`${call.path} was answered with ${status}: ${text.slice(0, 500)}`)
    return text
  }

  /** Breaks all connections. */
  close(): void {
    this.#agent.destroy()
  }

  async #send({ method, path, key, body, gzip, headers }: Call, keepsText: boolean): Promise<Answer> {
    const payload = gzip ?? (body === undefined ? undefined : Buffer.from(JSON.stringify(body)))
    const asked = request({
      method: method ?? (payload ? 'POST' : 'GET'),
      path,
      host: this.#url.hostname,
      port: this.#url.port,
      agent: this.#agent,
      timeout: LIMIT_MS,
      headers: {
        'x-api-key': key,
        ...(payload && { 'content-type': 'application/json', 'content-length': payload.length }),
        ...(gzip && { 'content-encoding': 'gzip' }),
        ...headers,
      },
    })
    asked.on('error', () => undefined)
    asked.on('timeout', () => asked.destroy(new Error('no answer in time')))
    asked.end(payload)
    const [response] = await once(asked, 'response')
    let bytes = 0
    let text = ''
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (keepsText) text += chunk.toString()
    }
    return { status: response.statusCode, bytes, text }
  }
}

/** A gzipped JSON body. */
export function zipped(body: unknown): Buffer {
  return gzipSync(JSON.stringify(body), { level: 1 })
}
