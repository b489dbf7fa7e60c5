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
  readonly #timer: NodeJS.Timeout

  /** @param verb what happens to the events, such as "imported" */
  constructor(stderr: CommandIo['stderr'], verb: string, read: () => Progress) {
    this.#stderr = stderr
    this.#verb = verb
    this.#read = read
    this.#first = read()
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
    const seconds = (performance.now() - this.#startedAt) / 1000
    const text = describeProgress(this.#verb, this.#read(), this.#first, seconds)
    if (this.#stderr.isTTY) this.#stderr.write(`\r\x1b[K${text.slice(0, (this.#stderr.columns ?? 80) - 1)}`)
    else this.#stderr.write(`${text}\n`)
  }
}

/** @param first the progress when this run began, `seconds` ago */
function describeProgress(verb: string, { events, part }: Progress, first: Progress, seconds: number): string {
  const rate = seconds > 0 ? (events - first.events) / seconds : 0
  const moved = `${counted(events, 'event')} ${verb}, ${number(Math.round(rate))}/s`
  if (part === null) return moved
  const bar = '#'.repeat(Math.round(part * BAR_WIDTH)).padEnd(BAR_WIDTH, '.')
  const done = part - (first.part ?? 0)
  const left = done > 0 ? (seconds * (1 - part)) / done : null
  return `[${bar}] ${Math.floor(part * 100)} %, ${moved}${left === null ? '' : `, ${duration(left)} left`}`
}

/** For example `1 event` and `2 000 events`. */
export function counted(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`
}

export function number(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ' ')
}

function duration(seconds: number): string {
  if (seconds < 100) return `${Math.ceil(seconds)} s`
  if (seconds < 6_000) return `${Math.ceil(seconds / 60)} min`
  return `${Math.ceil(seconds / 3600)} h`
}
