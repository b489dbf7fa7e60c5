import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { Log } from '../lib/log.js'

/** A worker that ends this soon after its start was not ended by something rare. */
const SHORT_LIFE_MS = 5_000
const MAX_SHORT_LIVES = 5
const RESTART_PAUSE_MS = 500
/** Workers that listen this late hang: each thing that a start asks of Redis and ClickHouse is given up after 30 s at most. */
const START_LIMIT_MS = 120_000
/** Figures that come later are left out of the answer. */
const FIGURES_LIMIT_MS = 1_000

/** Between the processes; `id` names the question that an answer belongs to. */
type Message =
  | { type: 'figures of all?'; id: number }
  | { type: 'figures of all'; id: number; text: string }
  | { type: 'figures?'; id: number }
  | { type: 'figures'; id: number; text: string }

type Figures = [process: string, text: string]

export interface WorkersOptions {
  count: number
  /** settings of the workers, beside those of this process */
  env: Record<string, string>
  log: Log
  /** the figures of this process, as Prometheus reads them */
  figures: () => Promise<string>
  /** told when workers end as soon as they have started, again and again */
  onFatal: (error: Error) => void
  /** how long the first worker may take until it listens, in ms; default 120 000 */
  startLimitMs?: number
}

/** The processes that answer requests on one port. One that dies is replaced; connections are given to them in turn. */
export class Workers {
  readonly #options: WorkersOptions
  readonly #places = new WeakMap<Worker, number>()
  readonly #waiting = new Map<number, (text: string) => void>()
  #questions = 0
  #shortLives = 0
  #isClosing = false

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /**
   * Resolves with the address that all listen on, once the first does.
   * @throws Error where none does in time; they are ended
   */
  async start(): Promise<AddressInfo> {
    const { count, startLimitMs = START_LIMIT_MS } = this.#options
    for (let place = 1; place <= count; place++) this.#fork(place)
    const signal = AbortSignal.timeout(startLimitMs)
    const listening = await once(cluster, 'listening', { signal }).catch(() => null)
    if (!listening) {
      this.#isClosing = true
      // One that hangs may not see a signal that asks.
      for (const worker of living()) worker.process.kill('SIGKILL')
      const seconds = startLimitMs / 1000
      throw new Error(`no worker listens ${seconds} s after its start; the log says how far they came. Start it again.`)
    }
    const [, { address, port, addressType }] = listening
    return { address: address ?? '::', port, family: addressType === 6 ? 'IPv6' : 'IPv4' }
  }

  /** Lets the workers answer what they have begun, and resolves when they have ended. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(
      living().map(async (worker) => {
        const ended = once(worker, 'exit')
        worker.process.kill('SIGTERM')
        await ended
      }),
    )
  }

  /** @param place which of the workers it is; its figures go on under this name when it is replaced */
  #fork(place: number): void {
    const startedAt = performance.now()
    const worker = cluster.fork(this.#options.env)
    this.#places.set(worker, place)
    worker.once('exit', (code, signal) => {
      this.#shortLives = performance.now() - startedAt < SHORT_LIFE_MS ? this.#shortLives + 1 : 0
      this.#replace(place, signal ?? code)
    })
    worker.on('message', (message: Message) => this.#receive(worker, message))
  }

  #replace(place: number, reason: string | number): void {
    if (this.#isClosing) return
    if (this.#shortLives > MAX_SHORT_LIVES) {
      this.#options.onFatal(new Error(`the workers end as soon as they have started: ${reason}`))
      return
    }
    this.#options.log.error({ worker: place, reason }, 'a worker ended; another takes its place')
    setTimeout(() => {
      if (!this.#isClosing) this.#fork(place)
    }, RESTART_PAUSE_MS)
  }

  #receive(worker: Worker, message: Message): void {
    if (message.type === 'figures') this.#waiting.get(message.id)?.(message.text)
    if (message.type !== 'figures of all?') return
    this.#figuresOfAll()
      .then((text) => send(worker, { type: 'figures of all', id: message.id, text }))
      .catch((error) => this.#options.log.warn({ err: error }, 'the figures of the workers could not be read'))
  }

  async #figuresOfAll(): Promise<string> {
    const writer = this.#options.figures().then((text): Figures => ['writer', text])
    const workers = living().map(async (worker): Promise<Figures> => {
      return [`worker-${this.#places.get(worker)}`, await this.#figuresOf(worker)]
    })
    return mergeMetrics(await Promise.all([writer, ...workers]))
  }

  async #figuresOf(worker: Worker): Promise<string> {
    const id = ++this.#questions
    try {
      return await answerTo(this.#waiting, id, () => send(worker, { type: 'figures?', id }))
    } catch {
      return ''
    }
  }
}

/** This process, where it is one of several that listen on one port. It ends when the one that looks after it does. */
export class WorkerSide {
  readonly #waiting = new Map<number, (text: string) => void>()
  #questions = 0

  /** @param figures of this process */
  constructor(figures: () => Promise<string>) {
    process.on('message', async (message: Message) => {
      if (message.type === 'figures of all') this.#waiting.get(message.id)?.(message.text)
      if (message.type === 'figures?') toPrimary({ type: 'figures', id: message.id, text: await figures() })
    })
  }

  /** @throws where the answer does not come in time */
  figuresOfAll(): Promise<string> {
    const id = ++this.#questions
    // The other side waits as long for each of the workers.
    return answerTo(this.#waiting, id, () => toPrimary({ type: 'figures of all?', id }), 2 * FIGURES_LIMIT_MS)
  }
}

/**
 * Puts the figures of several processes together: each sample gets the label `process`, and those of one metric stand
 * together under one heading, as the text format wants it.
 */
export function mergeMetrics(figures: Figures[]): string {
  const metrics = new Map<string, { heading: string[]; samples: string[] }>()
  for (const [name, text] of figures) {
    let metric = { heading: [] as string[], samples: [] as string[] }
    for (const line of text.split('\n')) {
      const help = /^# HELP (\S+)/.exec(line)?.[1]
      if (help !== undefined) {
        const known = metrics.get(help)
        metric = known ?? { heading: [], samples: [] }
        metrics.set(help, metric)
      }
      if (line === '') continue
      if (!line.startsWith('#')) metric.samples.push(withLabel(line, `process="${name}"`))
      else if (!metric.heading.includes(line)) metric.heading.push(line)
    }
  }
  return `${[...metrics.values()].flatMap(({ heading, samples }) => [...heading, ...samples]).join('\n')}\n`
}

function withLabel(sample: string, label: string): string {
  return sample.replace(
    /^([^\s{]+)(?:\{(.*)\})? (\S+)$/,
    (_, name: string, labels: string | undefined, value: string) => {
      return `${name}{${labels ? `${labels},` : ''}${label}} ${value}`
    },
  )
}

function living(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined)
}

async function answerTo(
  waiting: Map<number, (text: string) => void>,
  id: number,
  ask: () => void,
  limitMs = FIGURES_LIMIT_MS,
): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  try {
    return await new Promise((resolve, reject) => {
      waiting.set(id, resolve)
      timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs)
      ask()
    })
  } finally {
    clearTimeout(timer)
    waiting.delete(id)
  }
}

function send(worker: Worker, message: Message): void {
  // A worker that is just ending hears nothing more.
  if (worker.isConnected()) worker.send(message, () => undefined)
}

function toPrimary(message: Message): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
}
