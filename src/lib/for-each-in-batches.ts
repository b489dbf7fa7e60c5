import { pieces } from './pieces.js'

/** How many tasks run at the same time. */
const AT_ONCE = 100

/** Runs a task for each value, a hundred at a time. @throws the first failure, without waiting for running tasks */
export async function forEachInBatches<T>(values: readonly T[], run: (value: T) => Promise<void>): Promise<void> {
  for (const piece of pieces(values, AT_ONCE)) await Promise.all(piece.map(run))
}
