import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

/** Short, because a process that has used up its share waits for the rest of it. */
const PERIOD_US = 20_000
/**
 * How often the removal of a group is tried: the kernel counts it as busy for some ms after its last process has ended.
 */
const REMOVALS = 100
const REMOVAL_PAUSE_MS = 20

/** The files of a version of cgroups. */
interface Controller {
  /** the group of this process */
  folder: string
  limit(share: number | null): [file: string, text: string][]
  /** the greatest weight, so that only its share limits a group, and not other processes */
  weight: [file: string, text: string]
}

const V1: Omit<Controller, 'folder'> = {
  limit: (share) => [
    ['cpu.cfs_period_us', String(PERIOD_US)],
    ['cpu.cfs_quota_us', share === null ? '-1' : String(Math.round(share * PERIOD_US))],
  ],
  weight: ['cpu.shares', '262144'],
}

const V2: Omit<Controller, 'folder'> = {
  limit: (share) => [['cpu.max', `${share === null ? 'max' : Math.round(share * PERIOD_US)} ${PERIOD_US}`]],
  weight: ['cpu.weight', '10000'],
}

/** Processes that together may use a share of one core. */
export class CpuGroup {
  readonly #folder: string
  readonly #controller: Controller

  constructor(folder: string, controller: Controller) {
    this.#folder = folder
    this.#controller = controller
    mkdirSync(folder)
    this.#write(controller.weight)
  }

  /** @param pid of a process; those that it starts later are in the group too */
  add(pid: number): void {
    this.#write(['cgroup.procs', String(pid)])
  }

  /** @param share of one core; null for no limit */
  limit(share: number | null): void {
    for (const setting of this.#controller.limit(share)) this.#write(setting)
  }

  group(name: string): CpuGroup {
    return new CpuGroup(join(this.#folder, name), this.#controller)
  }

  /** Lets version 2 distribute the CPU among the groups below this one. */
  delegate(): void {
    if (!('cpu.max' in Object.fromEntries(this.#controller.limit(null)))) return
    this.#write(['cgroup.subtree_control', '+cpu'])
  }

  /** Removes the group, whose processes must have ended. */
  async close(): Promise<void> {
    for (let left = REMOVALS; ; left--) {
      try {
        return rmdirSync(this.#folder)
      } catch (error) {
        if (left === 0) throw error
        await wait(REMOVAL_PAUSE_MS)
      }
    }
  }

  #write([file, text]: [file: string, text: string]): void {
    writeFileSync(join(this.#folder, file), text)
  }
}

/**
 * Opens a group for all machines of a benchmark, with either version of cgroups.
 * @returns null if this process may not create any
 */
export function openCpuGroup(): CpuGroup | null {
  try {
    const controller = findController()
    if (!controller) return null
    if (controller.weight === V2.weight) writeFileSync(join(controller.folder, 'cgroup.subtree_control'), '+cpu')
    const group = new CpuGroup(join(controller.folder, `tallyhouse-bench-${process.pid}`), controller)
    group.delegate()
    return group
  } catch {
    return null
  }
}

/** The mounted CPU controller. Version 1 is tried first, because if it is mounted, version 2 lacks the controller. */
function findController(): Controller | null {
  const groups = linesOf('/proc/self/cgroup').map((line) => /^\d+:([^:]*):(.*)$/.exec(line) ?? [])
  const mounts = linesOf('/proc/self/mountinfo').map((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '/', folder = ''] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    return { root, folder, type, options: options.split(',') }
  })
  const own = (root: string, folder: string, controllers: (names: string) => boolean) => {
    const path = groups.find(([, names = '']) => controllers(names))?.[2] ?? '/'
    return join(folder, path.startsWith(root) ? relative(root, path) : '.')
  }
  const first = mounts.find(({ type, options }) => type === 'cgroup' && options.includes('cpu'))
  if (first) return { ...V1, folder: own(first.root, first.folder, (names) => names.split(',').includes('cpu')) }
  const second = mounts.find(({ type }) => type === 'cgroup2')
  return second ? { ...V2, folder: own(second.root, second.folder, (names) => names === '') } : null
}

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8').trimEnd().split('\n')
}
