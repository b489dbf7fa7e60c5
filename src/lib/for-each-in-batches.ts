/** How many tasks run at the same time. */
const AT_ONCE = 100

/** Runs a task for each value, a hundred at a time. @throws the first failure, without waiting for running tasks */
export async function forEachInBatches<T>(values: readonly T[], run: (value: T) => Promise<void>): Promise<void> {
  for (let start = 0; start < values.length; start += AT_ONCE) {
    await Promise.all(values.slice(start, start + AT_ONCE).map(run))
  }
}
