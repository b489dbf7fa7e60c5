import { failureText } from '../lib/failure-text.js'
import { createNearestFinder } from '../lib/nearest.js'
import { VERSION } from '../version.js'
import { replaceControls } from './columns.js'
import { type Command, type CommandIo, UsageError } from './command.js'
import { OutputError } from './output.js'

/** Loaded on demand, so that no command pays for another's imports. In the order of `--help`. */
const COMMANDS: Record<string, () => Promise<{ command: Command }>> = {
  serve: () => import('./serve.js'),
  demo: () => import('./demo/command.js'),
  doctor: () => import('./doctor.js'),
  // Data, in and out.
  import: () => import('./import/command.js'),
  export: () => import('./export/command.js'),
  tail: () => import('./tail.js'),
  query: () => import('./query/command.js'),
  mcp: () => import('./mcp.js'),
  sql: () => import('./sql.js'),
  // Projects and their users.
  projects: () => import('./projects.js'),
  keys: () => import('./keys.js'),
  aliases: () => import('./aliases.js'),
  erase: () => import('./erase.js'),
  ids: () => import('./ids.js'),
  'dead-letters': () => import('./dead-letters.js'),
  // The store.
  verify: () => import('./verify/command.js'),
  facts: () => import('./facts.js'),
  lanes: () => import('./lanes/command.js'),
}

/** The parts of its process that a command line may use; `stop` ends the command. */
export interface ProgramIo extends Omit<CommandIo, 'signal'> {
  stop: AbortController
  /** called before a command runs that does not handle signals itself; they are to abort `stop` */
  onSignals?: () => void
}

/**
 * Runs a command line.
 * @param line the name of a command and its arguments
 * @returns the exit code: 0 success, 1 failure, 2 wrong usage
 */
export async function runProgram([name = 'help', ...args]: string[], io: ProgramIo): Promise<number> {
  const { stop, onSignals, ...rest } = io
  const { stdout, stderr } = io
  if (['help', '--help', '-h'].includes(name)) {
    stdout.write(await help())
    return 0
  }
  if (['version', '--version', '-v'].includes(name)) {
    stdout.write(`tallyhouse ${VERSION}\n`)
    return 0
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!load) {
    const meant = createNearestFinder(Object.keys(COMMANDS))(name)
    const advice = meant === undefined ? '' : ` Did you mean ${meant}?`
    stderr.write(`There is no command "${name}".${advice} For all commands: tallyhouse --help\n`)
    return 2
  }
  const { command } = await load()
  if (args.includes('--help') || args.includes('-h')) {
    stdout.write(`${command.usage}\n`)
    return 0
  }
  if (!command.handlesSignals) onSignals?.()
  try {
    return await command.run(args, { ...rest, signal: stop.signal })
  } catch (error) {
    if (error instanceof OutputError) return 1
    const isUsage = error instanceof UsageError
    // It may quote a file, or a response.
    stderr.write(
      `${replaceControls(failureText(error))}\n${isUsage ? `For all options: tallyhouse ${name} --help\n` : ''}`,
    )
    return isUsage ? 2 : 1
  }
}

async function help(): Promise<string> {
  const names = Object.keys(COMMANDS)
  const width = Math.max(...names.map(({ length }) => length))
  const lines = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, load]) => `  ${name.padEnd(width)}  ${(await load()).command.summary}`),
  )
  return `Usage: tallyhouse <command> [options]\n\n${lines.join('\n')}\n\ntallyhouse <command> --help shows the options, tallyhouse --version the version.\n`
}
