import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Scope } from '../helper.js'

/** What happens to a connection whose reply was lost: it ends, or stays silent forever. */
export type Ending = 'cut' | 'silence'

interface Link {
  client: Socket
  server: Socket
  /** the end of the client's bytes, because the text may come in two pieces */
  carry: Buffer
  /** handles further bytes */
  requests: 'pass' | 'drop' | 'hold'
  replies: 'pass' | 'drop'
  held: Buffer[]
  /** delayed work in each direction, in order, even if the delay changes in the meantime */
  late: Record<'toServer' | 'toClient', (() => void)[]>
  /** called with the first bytes of a reply that is dropped */
  onReply: (() => void) | null
}

interface Rule {
  text: Buffer
  left: number
  /** @param at where the text's chunk may be split: bytes before it do not belong to the request */
  act(link: Link, chunk: Buffer, at: number): void
}

/**
 * A TCP proxy that injects faults between a client and a server: it delays, cuts and drops data in both directions, and
 * responds instead of the server. It knows no protocol; a request is recognised by a text in it.
 */
export class TcpProxy {
  /** the server's URL, by way of this proxy */
  readonly url: string
  /** delay of every chunk, in both directions, ms */
  delayMs = 0
  readonly #listener: Server
  #target: { host: string; port: number }
  readonly #links = new Set<Link>()
  readonly #watches: { text: Buffer; seen: number }[] = []
  #rules: Rule[] = []
  #isDown = false

  private constructor(listener: Server, target: string) {
    const url = new URL(target)
    this.#listener = listener
    this.#target = addressOf(url)
    url.hostname = '127.0.0.1'
    url.port = String((listener.address() as AddressInfo).port)
    this.url = url.href.replace(/\/$/, '')
    listener.on('connection', (client) => this.#accept(client))
  }

  /** @param target the URL of a server on this machine, of any scheme */
  static async open(t: Scope, target: string): Promise<TcpProxy> {
    const listener = createServer().listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const proxy = new TcpProxy(listener, target)
    t.teardown(() => proxy.close())
    return proxy
  }

  /** The next request with this text is carried out, and its reply lost. Resolves when that has happened. */
  loseReply(text: string, ending: Ending = 'cut'): Promise<void> {
    return this.#next(text, (link, chunk, done) => {
      link.replies = 'drop'
      link.onReply = () => {
        if (ending === 'silence') return done()
        link.client.destroy()
        // Half-closed, so that the server carries out everything that it was sent.
        link.server.once('close', done).end()
      }
      this.#forward(link, chunk)
    })
  }

  /** The next request with this text is cut off: at most its beginning reaches the server. */
  loseRequest(text: string): Promise<void> {
    return this.#next(text, (link, chunk, done, at) => {
      this.#forward(link, chunk.subarray(0, at))
      link.requests = 'drop'
      link.client.destroy()
      done()
    })
  }

  /** The next requests with this text get this reply, and do not reach the server. Resolves after the last of them. */
  answer(text: string, reply: string, times = 1): Promise<void> {
    return this.#next(
      text,
      (link, _chunk, done) => {
        link.requests = 'drop'
        link.server.destroy()
        link.client.end(reply)
        done()
      },
      times,
    )
  }

  /** The next request with this text is carried out, and gets this reply instead of the server's. */
  replaceReply(text: string, reply: string): Promise<void> {
    return this.#next(text, (link, chunk, done) => {
      link.replies = 'drop'
      link.onReply = () => {
        link.client.end(reply)
        done()
      }
      this.#forward(link, chunk)
    })
  }

  /** Counts the requests with this text from now on, whatever happens to them. */
  watch(text: string): { readonly seen: number } {
    const watch = { text: Buffer.from(text), seen: 0 }
    this.#watches.push(watch)
    return watch
  }

  /** Holds the next request with this text until its release, which resolves with the reply, even if the client is gone. */
  hold(text: string): { held: Promise<void>; release(): Promise<void> } {
    let kept: Link | null = null
    const held = this.#next(text, (link, chunk, done) => {
      link.requests = 'hold'
      link.held.push(chunk)
      kept = link
      done()
    })
    return {
      held,
      release: async () => {
        if (!kept) return
        kept.requests = 'pass'
        const { server } = kept
        const replied = new Promise<void>((resolve) => {
          for (const event of ['data', 'close']) server.once(event, () => resolve())
        })
        for (const chunk of kept.held.splice(0)) this.#forward(kept, chunk)
        await replied
      },
    }
  }

  /** Ends every connection and takes no other until `restore`. */
  cut(): void {
    this.#isDown = true
    for (const { client, server } of this.#links) {
      client.destroy()
      server.destroy()
    }
  }

  restore(): void {
    this.#isDown = false
  }

  /** Ends every connection; the next ones lead to another server. */
  moveTo(target: string): void {
    this.cut()
    this.#target = addressOf(new URL(target))
    this.restore()
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#listener.close(resolve))
  }

  #next(
    text: string,
    act: (link: Link, chunk: Buffer, done: () => void, at: number) => void,
    times = 1,
  ): Promise<void> {
    return new Promise((resolve) => {
      let left = times
      const done = () => {
        if (--left === 0) resolve()
      }
      this.#rules.push({ text: Buffer.from(text), left: times, act: (link, chunk, at) => act(link, chunk, done, at) })
    })
  }

  #accept(client: Socket): void {
    if (this.#isDown) {
      client.destroy()
      return
    }
    const server = connect(this.#target)
    const link: Link = {
      client,
      server,
      carry: Buffer.alloc(0),
      requests: 'pass',
      replies: 'pass',
      held: [],
      late: { toServer: [], toClient: [] },
      onReply: null,
    }
    this.#links.add(link)
    client.setNoDelay()
    server.setNoDelay()
    client.on('data', (chunk) => this.#request(link, chunk))
    server.on('data', (chunk) => this.#reply(link, chunk))
    // The end of one side is passed on to the other; a held request outlives its client.
    client.on('close', () => {
      if (link.requests !== 'hold' && !server.writableEnded) this.#late(link.late.toServer, () => server.destroy())
    })
    server.on('close', () => {
      this.#links.delete(link)
      if (link.replies === 'pass' && !client.writableEnded) this.#late(link.late.toClient, () => client.destroy())
    })
    client.on('error', () => client.destroy())
    server.on('error', () => server.destroy())
  }

  #request(link: Link, chunk: Buffer): void {
    if (link.requests === 'drop') return
    if (link.requests === 'hold') {
      link.held.push(chunk)
      return
    }
    const seen = Buffer.concat([link.carry, chunk])
    const before = link.carry.length
    // If the carry contains the whole text, it was already found there.
    const find = (text: Buffer) => seen.indexOf(text, Math.max(0, before - text.length + 1))
    for (const watch of this.#watches) if (find(watch.text) !== -1) watch.seen++
    for (const rule of this.#rules) {
      const at = find(rule.text)
      if (at === -1) continue
      if (--rule.left === 0) this.#rules = this.#rules.filter((other) => other !== rule)
      link.carry = Buffer.alloc(0)
      rule.act(link, chunk, Math.max(0, at - before))
      return
    }
    const longest = Math.max(0, ...[...this.#rules, ...this.#watches].map(({ text }) => text.length - 1))
    link.carry = longest === 0 ? Buffer.alloc(0) : seen.subarray(-longest)
    this.#forward(link, chunk)
  }

  #reply(link: Link, chunk: Buffer): void {
    if (link.replies === 'drop') {
      link.onReply?.()
      link.onReply = null
      return
    }
    this.#pass(link.late.toClient, link.server, link.client, chunk)
  }

  #forward({ client, server, late }: Link, chunk: Buffer): void {
    this.#pass(late.toServer, client, server, chunk)
  }

  #pass(late: (() => void)[], from: Socket, to: Socket, chunk: Buffer): void {
    this.#late(late, () => {
      if (to.destroyed || to.writableEnded || to.write(chunk)) return
      from.pause()
      to.once('drain', () => from.resume())
    })
  }

  #late(queue: (() => void)[], action: () => void): void {
    if (this.delayMs === 0 && queue.length === 0) {
      action()
      return
    }
    queue.push(action)
    setTimeout(() => queue.shift()?.(), this.delayMs)
  }
}

function addressOf({ hostname, port }: URL): { host: string; port: number } {
  return { host: hostname, port: Number(port) }
}

/** The HTTP response of ClickHouse if it cannot execute a statement. */
export function clickHouseError(code: number, name: string, message: string, status = 500): string {
  const body = `Code: ${code}. DB::Exception: ${message}. (${name}) (version 26.7.1.1 (official build))\n`
  return httpAnswer(status, body, `X-ClickHouse-Exception-Code: ${code}\r\n`)
}

export function httpAnswer(status: number, body: string, headers = ''): string {
  return (
    `HTTP/1.1 ${status} Whatever\r\nContent-Type: text/plain\r\n${headers}` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  )
}
