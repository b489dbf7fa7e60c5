import type { Readable, Writable } from 'node:stream'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { createNearestFinder } from '../lib/nearest.js'

/** The parts of the process that a command may use. */
export interface CommandIo {
  env: NodeJS.ProcessEnv
  stdin: Readable & { isTTY?: boolean }
  stdout: Writable & { isTTY?: boolean; columns?: number }
  /** progress and messages; only results go to `stdout` */
  stderr: Writable & { isTTY?: boolean; columns?: number }
  /** aborted by the first Ctrl-C or SIGTERM: the command saves its progress and exits */
  signal: AbortSignal
}

export interface Command {
  /** one line for the list of commands */
  summary: string
  /** the help text, without a trailing newline */
  usage: string
  /** whether `run` handles signals itself; `signal` is never aborted then */
  handlesSignals?: true
  /**
   * @returns the exit code: 0 if everything was done, 1 if not
   * @throws UsageError if the arguments are not valid
   */
  run(args: string[], io: CommandIo): Promise<number>
}

/** The arguments are not valid; the message says what to write instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * Like Node's `parseArgs`.
 * @throws UsageError if an argument is unknown or lacks its value
 */
export function parseOptions<const Config extends ParseArgsConfig>(
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const [, unknown] = /^Unknown option '(--?[^']+)'/.exec(message) ?? []
    throw new UsageError(unknown === undefined ? message : describeUnknown(unknown, Object.keys(config.options ?? {})))
  }
}

/** Whether an option is among arguments that are not parsed yet, because it decides how. */
export function hasOption(args: readonly string[], name: string): boolean {
  return args.some((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`))
}

/** Node's own message speaks of positional arguments instead of the option that was meant. */
function describeUnknown(option: string, known: string[]): string {
  const meant = createNearestFinder(known)(option.replace(/^-+/, ''))
  return `There is no option ${option}.${meant === undefined ? '' : ` Did you mean --${meant}?`}`
}

const OR = new Intl.ListFormat('en-GB', { type: 'disjunction' })

/** Joins words, such as `list, show or replay`. */
export function joinWords(words: readonly string[]): string {
  return OR.format(words)
}

/** Finds the action that the first argument of a command names. @throws UsageError */
export function findAction<Action>(actions: Record<string, Action>, name = ''): Action {
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (action === undefined) throw new UsageError(`Specify an action: ${joinWords(Object.keys(actions))}.`)
  return action
}

/** Parses the number of an option. @throws UsageError */
export function parseInteger(option: string, text: string, min: number, max: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= min && value <= max) return value
  throw new UsageError(`${option} must be a whole number from ${min} to ${max}.`)
}
