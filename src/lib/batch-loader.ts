/** Keys that one fetch is asked for at most. */
const MAX_KEYS = 1000

/**
 * Gathers the look-ups of one turn of the event loop, so that they cost one question.
 * @param fetch answers in the order of its keys, where an answer takes longer than others with a promise of it; for as many
 *   of the first keys as it likes, one at least, and is asked for the rest then
 */
export function batchLoader<Key, Value>(
  fetch: (keys: Key[]) => Promise<(Value | Promise<Value>)[]>,
): (key: Key) => Promise<Value> {
  let waiting: { key: Key; resolve(value: Value | Promise<Value>): void; reject(error: unknown): void }[] = []

  async function ask(): Promise<void> {
    const asked = waiting
    waiting = []
    for (let start = 0; start < asked.length; ) {
      const some = asked.slice(start, start + MAX_KEYS)
      try {
        const values = await fetch(some.map(({ key }) => key))
        if (values.length === 0) throw new Error('a fetch answered for none of its keys')
        values.forEach((value, i) => {
          some[i]?.resolve(value)
        })
        start += values.length
      } catch (error) {
        for (const { reject } of some) reject(error)
        start += some.length
      }
    }
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(ask)
      waiting.push({ key, resolve, reject })
    })
}
