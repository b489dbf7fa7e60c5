/** Maximum number of keys in one fetch. */
const MAX_KEYS = 1000

interface BatchLoaderOptions {
  /** maximum number of concurrent fetches; further look-ups wait and share the next one; default: no limit */
  atOnce?: number
}

/**
 * Batches look-ups into one fetch: all of one turn of the event loop, or all that are made until the next fetch may
 * begin.
 * @param fetch returns values in the order of its keys; a promise for a value that takes longer than the others. It may
 *   return fewer values than keys, but at least one, and is then called again for the rest
 */
export function createBatchLoader<Key, Value>(
  fetch: (keys: Key[]) => Promise<(Value | Promise<Value>)[]>,
  { atOnce = Number.POSITIVE_INFINITY }: BatchLoaderOptions = {},
): (key: Key) => Promise<Value> {
  let running = 0
  let waiting: { key: Key; resolve(value: Value | Promise<Value>): void; reject(error: unknown): void }[] = []

  async function ask(): Promise<void> {
    if (running >= atOnce || waiting.length === 0) return
    const asked = waiting
    waiting = []
    running++
    for (let start = 0; start < asked.length; ) {
      const some = asked.slice(start, start + MAX_KEYS)
      try {
        const values = await fetch(some.map(({ key }) => key))
        if (values.length === 0) throw new Error('a fetch returned no value')
        values.forEach((value, i) => {
          some[i]?.resolve(value)
        })
        start += values.length
        // Each look-up gets its value as soon as it arrives; only the next fetch waits for all of them.
        if (atOnce !== Number.POSITIVE_INFINITY) await Promise.allSettled(values)
      } catch (error) {
        for (const { reject } of some) reject(error)
        start += some.length
      }
    }
    running--
    void ask()
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(ask)
      waiting.push({ key, resolve, reject })
    })
}
