import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Command } from '../../src/cli/command.js'
import { runProgram } from '../../src/cli/program.js'
import { CLI, SECRET_KEY } from '../helper.js'

/** A command as users run it: in its own process. */
export function startCommand(
  args: string[],
  env: NodeJS.ProcessEnv = { SECRET_KEY },
  stdout: 'pipe' | number = 'pipe',
): ChildProcess {
  return spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', stdout, 'pipe'],
  })
}

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** A command in its own process, at its end: for what depends on how Node.js starts, such as its certificates. */
export async function runProcess(args: string[], stdin: string | Buffer = '', env?: NodeJS.ProcessEnv): Promise<Ended> {
  return await endOf(startCommand(args, env), stdin)
}

/** `skip` of a test that needs a full disk. */
export const NO_FULL_DISK = process.platform !== 'linux' && 'needs /dev/full'

/** A command in its own process whose standard output is a file on a full disk, at its end. */
export async function runOnFullDisk(args: string[], env?: NodeJS.ProcessEnv, stdin = ''): Promise<Ended> {
  const file = await open('/dev/full', 'w')
  try {
    return await endOf(startCommand(args, env, file.fd), stdin)
  } finally {
    await file.close()
  }
}

async function endOf(child: ChildProcess, stdin: string | Buffer): Promise<Ended> {
  const ended = { code: -1, stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    ended.stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    ended.stderr += text
  })
  child.stdin?.on('error', () => undefined).end(stdin)
  const [code] = await once(child, 'close')
  return { ...ended, code: code ?? -1 }
}

/** A command in this process that runs until it is stopped, as by Ctrl-C. */
export function followCommand(args: string[], env: NodeJS.ProcessEnv = { SECRET_KEY }) {
  const [stdout, stderr, stop] = [new PassThrough(), new PassThrough(), new AbortController()]
  const printed = { stdout: '', stderr: '' }
  stdout.setEncoding('utf8').on('data', (text) => (printed.stdout += text))
  stderr.setEncoding('utf8').on('data', (text) => (printed.stderr += text))
  const ended = runProgram(args, { env, stdin: Readable.from([]), stdout, stderr, stop })
  const end = () => {
    stop.abort()
    return ended
  }
  return { printed, end }
}

/** A command in this process, because a process of its own takes 0.2 s of CPU time before it begins. */
export async function runCommand(
  args: string[],
  stdin: string | Buffer = '',
  env: NodeJS.ProcessEnv = { SECRET_KEY },
): Promise<Ended> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const printed = Promise.all([text(stdout), text(stderr)])
  const io = { env, stdin: Readable.from([Buffer.from(stdin)]), stdout, stderr, stop: new AbortController() }
  const code = await runProgram(args, io)
  stdout.end()
  stderr.end()
  const [out, notes] = await printed
  return { code, stdout: out, stderr: notes }
}

/** Runs a command in this process. Unlike `runCommand`, it rejects with the command's own error. */
export async function callCommand(command: Command, args: string[], env: NodeJS.ProcessEnv): Promise<Ended> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const printed = Promise.all([text(stdout), text(stderr)])
  try {
    const { signal } = new AbortController()
    const code = await command.run(args, { env, stdin, stdout, stderr, signal })
    stdout.end()
    stderr.end()
    const [out, notes] = await printed
    return { code, stdout: out, stderr: notes }
  } finally {
    stdout.end()
    stderr.end()
  }
}
