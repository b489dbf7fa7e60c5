import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { CLI, SECRET_KEY } from '../helper.js'

/** A command as users run it: in its own process. */
export function startCommand(args: string[], env: NodeJS.ProcessEnv = { SECRET_KEY }): ChildProcess {
  return spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

export async function runCommand(args: string[], stdin: string | Buffer = '', env?: NodeJS.ProcessEnv): Promise<Ended> {
  const child = startCommand(args, env)
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
