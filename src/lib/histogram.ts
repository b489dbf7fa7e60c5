/** Counts values by bucket. Counting one costs a few comparisons and allocates nothing. */
export class Histogram {
  /** upper bounds of the buckets, ascending; one more bucket counts values above the last */
  readonly bounds: readonly number[]
  /** one for each bound, and one for larger values */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    let i = 0
    while (value > (this.bounds[i] ?? Number.POSITIVE_INFINITY)) i++
    this.counts[i] = (this.counts[i] ?? 0) + 1
    this.sum += value
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0)
  }
}

/** Bounds for durations in seconds, from a memory access to the timeout of a query. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
