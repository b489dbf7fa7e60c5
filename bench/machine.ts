import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import type { Store } from './store.js'

const GIB = 1024 ** 3

/** The machine that was measured; a result without it means nothing. */
export interface Machine {
  cpu: string
  cores: number
  memoryGiB: number
  system: string
  node: string
  redis: string
  clickhouse: string
  load: string
  commit: string
}

/** @param store a running ClickHouse */
export async function describeMachine(store: Store): Promise<Machine> {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / GIB),
    system: `${type()} ${release()}`,
    node: process.version,
    redis: /v=(\S+)/.exec(outputOf('redis-server', ['--version']) ?? '')?.[1] ?? 'none',
    clickhouse: await store.text('SELECT version()'),
    load: loadTool(),
    commit: outputOf('git', ['describe', '--always', '--dirty']) ?? 'unknown',
  }
}

export function hasWrk(): boolean {
  return outputOf('wrk', ['-v']) !== null
}

function loadTool(): string {
  const wrk = outputOf('wrk', ['-v'])
  if (wrk !== null) return /^wrk \S+/.exec(wrk)?.[0] ?? 'wrk'
  const manifest = createRequire(import.meta.url).resolve('autocannon/package.json')
  return `autocannon ${(JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version}`
}

/**
 * The first line that a command prints, whatever its exit code (`wrk -v` exits with 1); null if there is no such
 * command.
 */
function outputOf(command: string, args: string[]): string | null {
  const { error, stdout } = spawnSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return error ? null : (stdout.trim().split('\n')[0] ?? '')
}
