import type { CommandIo } from './command.js'

/** The progress of a transfer. */
export interface Progress {
  /** events transferred */
  events: number
  /** from 0 to 1; null if the total is not known */
  part: number | null
}

const BAR_WIDTH = 24
const TERMINAL_MS = 100
const LINES_MS = 5_000
/** After this long without progress, any estimate of the time left would be a guess. */
const STALL_SECONDS = 10

/**
 * Shows the progress of a transfer: a line that is redrawn on a terminal, otherwise a new line every five seconds. Print
 * other messages with `report`, which keeps the line intact.
 */
export class ProgressLine {
  readonly #stderr: CommandIo['stderr']
  readonly #verb: string
  readonly #read: () => Progress
  readonly #startedAt = performance.now()
  readonly #first: Progress
  #last: Progress
  #movedAt: number
  readonly #timer: NodeJS.Timeout

  /** @param verb what happens to the events, such as "imported" */
  constructor(stderr: CommandIo['stderr'], verb: string, read: () => Progress) {
    this.#stderr = stderr
    this.#verb = verb
    this.#read = read
    this.#first = read()
    this.#last = this.#first
    this.#movedAt = this.#startedAt
    this.#timer = setInterval(() => this.#draw(), stderr.isTTY ? TERMINAL_MS : LINES_MS)
  }

  report(text: string): void {
    this.#stderr.write(`${this.#stderr.isTTY ? '\r\x1b[K' : ''}${text}\n`)
  }

  stop(): void {
    clearInterval(this.#timer)
    if (this.#stderr.isTTY) this.#stderr.write('\r\x1b[K')
  }

  #draw(): void {
    const now = performance.now()
    const progress = this.#read()
    if (progress.events !== this.#last.events || progress.part !== this.#last.part) this.#movedAt = now
    this.#last = progress
    const seconds = (now - this.#startedAt) / 1000
    const stillSeconds = (now - this.#movedAt) / 1000
    const text = describeProgress(this.#verb, progress, { first: this.#first, seconds, stillSeconds })
    if (this.#stderr.isTTY) this.#stderr.write(`\r\x1b[K${text.slice(0, (this.#stderr.columns ?? 80) - 1)}`)
    else this.#stderr.write(`${text}\n`)
  }
}

interface Run {
  /** the progress when the run began */
  first: Progress
  /** since it began */
  seconds: number
  /** since the last progress */
  stillSeconds: number
}

/** Describes the progress of a run: how fast it is and how long it will take, or that it has stalled. */
export function describeProgress(verb: string, { events, part }: Progress, run: Run): string {
  const { first, seconds, stillSeconds } = run
  const isStalled = stillSeconds >= STALL_SECONDS
  const rate = seconds > 0 ? (events - first.events) / seconds : 0
  const speed = isStalled ? `no progress for ${duration(stillSeconds)}` : `${number(Math.round(rate))}/s`
  const moved = `${counted(events, 'event')} ${verb}, ${speed}`
  if (part === null) return moved
  const bar = '#'.repeat(Math.round(part * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
  const done = part - (first.part ?? 0)
  const left = done > 0 && !isStalled ? (seconds * (1 - part)) / done : null
  return `[${bar}] ${Math.floor(part * 100)} %, ${moved}${left === null ? '' : `, ${duration(left)} left`}`
}

/** For example `1 event` and `2 000 events`. */
export function counted(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`
}

export function number(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ' ')
}

/** For example `90 s`, `3 min` or `5 h`. */
export function duration(seconds: number): string {
  if (seconds < 100) return `${Math.ceil(seconds)} s`
  if (seconds < 6_000) return `${Math.ceil(seconds / 60)} min`
  return `${Math.ceil(seconds / 3600)} h`
}
