import { readFile } from 'node:fs/promises'

/** The bit of CAP_SYS_NICE in the capabilities of a process on Linux. */
const SYS_NICE = 23n

/**
 * Whether a process may raise the priority of its threads again after lowering it; otherwise, ClickHouse does not
 * change any priority.
 * @returns null if unknown
 */
export async function canSetPriorities(pid: number | undefined): Promise<boolean | null> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1]
  return effective === undefined ? null : ((BigInt(`0x${effective}`) >> SYS_NICE) & 1n) === 1n
}
