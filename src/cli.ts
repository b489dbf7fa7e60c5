#!/usr/bin/env -S node --v8-pool-size=1 --no-allocation-site-pretenuring --heap-growing-percent=200 --min-semi-space-size=16 --no-memory-reducer
import { createWriteStream, fstatSync } from 'node:fs'
import type { CommandIo } from './cli/command.js'
import { isClosedPipe } from './cli/output.js'
import { runProgram } from './cli/program.js'
import { failureText } from './lib/failure-text.js'

/** If a disk takes only a part of a write, Node's own stream for files drops the rest without an error. */
const stdout: CommandIo['stdout'] = fstatSync(1).isFile()
  ? createWriteStream('', { fd: 1, autoClose: false })
  : process.stdout

let isOutputLost = false
stdout.on('error', (error: NodeJS.ErrnoException) => {
  // What it means that the reader has seen enough, a command with its own listener decides.
  if (isOutputLost || (isClosedPipe(error) && stdout.listenerCount('error') > 1)) return
  isOutputLost = true
  if (!isClosedPipe(error)) process.stderr.write(`The output cannot be written: ${failureText(error)}\n`)
  // The command may have returned already, so its exit code is set here.
  process.exitCode = 1
})
// Nobody reads the messages any more, but the work continues.
process.stderr.on('error', () => undefined)

const stop = new AbortController()
const { env, stdin, stderr } = process
const onSignals = () => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
}
const exitCode = await runProgram(process.argv.slice(2), { env, stdin, stdout, stderr, stop, onSignals })
// Output that nobody reads would keep the process alive. A file takes it.
if (stop.signal.aborted && process.stdout.writableLength > 0) process.exit(exitCode)
process.exitCode = isOutputLost ? exitCode || 1 : exitCode
