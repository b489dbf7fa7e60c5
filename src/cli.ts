#!/usr/bin/env -S node --v8-pool-size=1 --no-allocation-site-pretenuring --heap-growing-percent=200 --min-semi-space-size=16 --no-memory-reducer
import { type Command, UsageError } from './cli/command.js'
import { failureText } from './lib/failure-text.js'
import { createNearestFinder } from './lib/nearest.js'
import { VERSION } from './version.js'

/** Loaded on demand, so that no command pays for another's imports. */
const COMMANDS: Record<string, () => Promise<{ command: Command }>> = {
  aliases: () => import('./cli/aliases.js'),
  'dead-letters': () => import('./cli/dead-letters.js'),
  demo: () => import('./cli/demo/command.js'),
  doctor: () => import('./cli/doctor.js'),
  erase: () => import('./cli/erase.js'),
  serve: () => import('./cli/serve.js'),
  keys: () => import('./cli/keys.js'),
  ids: () => import('./cli/ids.js'),
  import: () => import('./cli/import/command.js'),
  export: () => import('./cli/export/command.js'),
  lanes: () => import('./cli/lanes.js'),
  mcp: () => import('./cli/mcp.js'),
  query: () => import('./cli/query/command.js'),
  sql: () => import('./cli/sql.js'),
  tail: () => import('./cli/tail.js'),
  verify: () => import('./cli/verify.js'),
}

let isOutputLost = false
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A command with its own listener decides what to do.
  if (isOutputLost || process.stdout.listenerCount('error') > 1) return
  isOutputLost = true
  if (error.code !== 'EPIPE') process.stderr.write(`The output cannot be written: ${failureText(error)}\n`)
  // The command may have returned already, so its exit code is set here.
  process.exitCode = 1
})
// Nobody reads the messages any more, but the work continues.
process.stderr.on('error', () => undefined)

const exitCode = await main(process.argv.slice(2))
process.exitCode = isOutputLost ? exitCode || 1 : exitCode

/** @returns the exit code: 0 success, 1 failure, 2 wrong usage */
async function main([name = 'help', ...args]: string[]): Promise<number> {
  if (['help', '--help', '-h'].includes(name)) {
    process.stdout.write(await help())
    return 0
  }
  if (['version', '--version', '-v'].includes(name)) {
    process.stdout.write(`tallyhouse ${VERSION}\n`)
    return 0
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!load) {
    const meant = createNearestFinder(Object.keys(COMMANDS))(name)
    const advice = meant === undefined ? '' : ` Did you mean ${meant}?`
    process.stderr.write(`There is no command "${name}".${advice} For all commands: tallyhouse --help\n`)
    return 2
  }
  const { command } = await load()
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(`${command.usage}\n`)
    return 0
  }
  const stop = new AbortController()
  const { env, stdin, stdout, stderr } = process
  if (!command.handlesSignals) {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  }
  try {
    const code = await command.run(args, { env, stdin, stdout, stderr, signal: stop.signal })
    // Output that nobody reads would keep the process alive.
    if (stop.signal.aborted && stdout.writableLength > 0) process.exit(code)
    return code
  } catch (error) {
    const isUsage = error instanceof UsageError
    stderr.write(`${failureText(error)}\n${isUsage ? `For all options: tallyhouse ${name} --help\n` : ''}`)
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
