import type { Blocks, Part } from '../store/parts.js'

/** Identifies a partition of a table. */
function toPartitionKey({ table, partition }: Pick<Blocks, 'table' | 'partition'>): string {
  return `${table}/${partition}`
}

/** Identifies a part. */
export function toPartKey(part: Part): string {
  return `${toPartitionKey(part)}/${part.name}`
}

/** The parts of a partition, ordered by their first blocks. A partition may have thousands. */
class Sorted<P extends Part> {
  readonly parts: P[] = []
  /** for each part, the greatest last block up to it; empty until sorted */
  #lasts: number[] = []

  sort(): void {
    this.parts.sort((a, b) => a.first - b.first || b.last - a.last)
    let last = Number.NEGATIVE_INFINITY
    this.#lasts = this.parts.map((part) => {
      last = Math.max(last, part.last)
      return last
    })
  }

  /** The parts that cover all these blocks, latest first block first. */
  *around({ first, last }: Blocks): Generator<P> {
    for (let at = this.#countBefore(first + 1) - 1; at >= 0 && (this.#lasts[at] ?? 0) >= last; at--) {
      const part = this.parts[at]
      if (part && last <= part.last) yield part
    }
  }

  *within({ first, last }: Blocks): Generator<P> {
    for (let at = this.#countBefore(first); at < this.parts.length; at++) {
      const part = this.parts[at]
      if (!part || part.first > last) return
      if (part.last <= last) yield part
    }
  }

  /** The number of parts that begin before this block. */
  #countBefore(block: number): number {
    let [low, high] = [0, this.parts.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.parts[middle]?.first ?? 0) < block) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Parts by partition. */
export class PartMap<P extends Part> {
  readonly #byPartition = new Map<string, Sorted<P>>()

  constructor(parts: readonly P[]) {
    for (const part of parts) {
      const key = toPartitionKey(part)
      const own = this.#byPartition.get(key) ?? new Sorted<P>()
      this.#byPartition.set(key, own)
      own.parts.push(part)
    }
    for (const own of this.#byPartition.values()) own.sort()
  }

  /** The keys of all partitions with parts. */
  get partitions(): string[] {
    return [...this.#byPartition.keys()]
  }

  /** @param partition one of `partitions` */
  at(partition: string): readonly P[] {
    return this.#byPartition.get(partition)?.parts ?? []
  }

  in(blocks: Pick<Blocks, 'table' | 'partition'>): readonly P[] {
    return this.at(toPartitionKey(blocks))
  }

  /** A part that covers all these blocks. */
  around(blocks: Blocks): P | undefined {
    return this.allAround(blocks)[0]
  }

  /** All parts that cover all these blocks; at most one of them is active. */
  allAround(blocks: Blocks): P[] {
    return [...(this.#byPartition.get(toPartitionKey(blocks))?.around(blocks) ?? [])]
  }

  /** The parts that have no other blocks. */
  within(blocks: Blocks): P[] {
    return [...(this.#byPartition.get(toPartitionKey(blocks))?.within(blocks) ?? [])]
  }
}

export function sumRows(parts: readonly Part[]): number {
  return parts.reduce((sum, { rows }) => sum + rows, 0)
}

/** Sums the rows of parts by project, largest first. */
export function sumByProject(parts: readonly { projects: Record<string, number> }[]): Record<string, number> {
  const sums = new Map<string, number>()
  for (const { projects } of parts) {
    for (const [project, count] of Object.entries(projects)) sums.set(project, (sums.get(project) ?? 0) + count)
  }
  return Object.fromEntries([...sums].sort(([, a], [, b]) => b - a))
}
