import type { Blocks, Part } from '../store/parts.js'

/** Names a partition of a table. */
function partitionKey({ table, partition }: Pick<Blocks, 'table' | 'partition'>): string {
  return `${table}/${partition}`
}

/** Names a part. */
export function partKey(part: Part): string {
  return `${partitionKey(part)}/${part.name}`
}

/** Whether `inner` has no block that `outer` does not have. */
function isWithin(inner: Blocks, outer: Blocks): boolean {
  return partitionKey(inner) === partitionKey(outer) && outer.first <= inner.first && inner.last <= outer.last
}

/** Parts by their partitions. */
export class PartMap<Of extends Part> {
  readonly byPartition = new Map<string, Of[]>()

  constructor(parts: readonly Of[]) {
    for (const part of parts) {
      const key = partitionKey(part)
      const all = this.byPartition.get(key)
      if (all) all.push(part)
      else this.byPartition.set(key, [part])
    }
  }

  in(blocks: Pick<Blocks, 'table' | 'partition'>): readonly Of[] {
    return this.byPartition.get(partitionKey(blocks)) ?? []
  }

  /** A part that has all these blocks. */
  around(blocks: Blocks): Of | undefined {
    return this.in(blocks).find((part) => isWithin(blocks, part))
  }

  /** All parts that have all these blocks: of those in use, one at most. */
  allAround(blocks: Blocks): Of[] {
    return this.in(blocks).filter((part) => isWithin(blocks, part))
  }

  /** The parts that have only such blocks. */
  within(blocks: Blocks): Of[] {
    return this.in(blocks).filter((part) => isWithin(part, blocks))
  }
}

export function sumOfRows(parts: readonly Part[]): number {
  return parts.reduce((sum, { rows }) => sum + rows, 0)
}

/** The rows by project of several parts, most first. */
export function sumByProject(parts: readonly { projects: Record<string, number> }[]): Record<string, number> {
  const sums = new Map<string, number>()
  for (const { projects } of parts) {
    for (const [project, count] of Object.entries(projects)) sums.set(project, (sums.get(project) ?? 0) + count)
  }
  return Object.fromEntries([...sums].sort(([, a], [, b]) => b - a))
}
