import { get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from './helper.js'
import { type Scope, SECRET_KEY, until } from './helper.js'

export interface SentEvent {
  id: string
  data: string
}

/** A client of `/public/events/live` that parses the stream as the HTML standard says. */
export interface LiveStream {
  response: IncomingMessage
  /** the events received so far, in order */
  events: SentEvent[]
  /** the ids of the events received so far */
  ids(): string[]
  /** the comments received so far */
  comments: string[]
  /** the reconnection time that the service sent, ms */
  retryMs(): number | undefined
  /** whether the stream has ended, and how */
  ending(): 'open' | 'end' | 'break'
  /** resolves with the events once there are `count` */
  until(count: number): Promise<SentEvent[]>
  close(): void
}

export interface StreamOptions {
  query?: string
  lastEventId?: string | undefined
  key?: string
  method?: string
}

/** Lets an app of `startApp` listen. @returns its address */
export async function addressOf({ app }: Client): Promise<string> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
}

/** Opens a stream, and resolves with the head of its response. */
export async function openStream(t: Scope, url: string, options: StreamOptions = {}): Promise<LiveStream> {
  const { query = '', lastEventId, key = SECRET_KEY, method = 'GET' } = options
  const headers = { 'x-api-key': key, ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${url}/public/events/live${query}`, { headers, agent: false, method }, resolve).on('error', reject)
  })
  t.teardown(() => response.destroy())
  return read(response)
}

function read(response: IncomingMessage): LiveStream {
  const events: SentEvent[] = []
  const comments: string[] = []
  let ending: 'open' | 'end' | 'break' = 'open'
  let retryMs: number | undefined
  let rest = ''
  let id = ''
  let data: string[] = []
  const takeLine = (line: string) => {
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (line === '') {
      if (data.length > 0) events.push({ id, data: data.join('\n') })
      data = []
    } else if (field === '') comments.push(value)
    else if (field === 'id') id = value
    else if (field === 'data') data.push(value)
    else if (field === 'retry') retryMs = Number(value)
    else throw new Error(`a line that is no field: ${line}`)
  }
  response.setEncoding('utf8')
  response.on('data', (text: string) => {
    const lines = `${rest}${text}`.split(/\r\n|\n|\r/)
    rest = lines.pop() ?? ''
    for (const line of lines) takeLine(line)
  })
  response.on('end', () => {
    ending = 'end'
  })
  response.on('error', () => {
    ending = 'break'
  })
  response.on('close', () => {
    if (ending === 'open') ending = 'break'
  })
  return {
    response,
    events,
    comments,
    ids: () => events.map(({ id }) => id),
    retryMs: () => retryMs,
    ending: () => ending,
    until: async (count) => {
      await until(`${count} live events, not ${events.length}`, () => events.length >= count || ending !== 'open')
      return events
    },
    close: () => response.destroy(),
  }
}
