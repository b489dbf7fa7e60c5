import { setImmediate as nextTurn } from 'node:timers/promises'

/** Keys that one fetch asks for at most. */
const MAX_KEYS = 1000

/**
 * Gathers the look-ups of one turn of the event loop, so that they cost one question.
 * @param fetch answers in the order of its keys; where an answer takes longer than others, with a promise of it
 * @param patienceMs where a question is dear: how long look-ups wait for the end of the question before, to share the next
 */
export function gather<Key, Value>(
  fetch: (keys: Key[]) => Promise<(Value | Promise<Value>)[]>,
  patienceMs = 0,
): (key: Key) => Promise<Value> {
  let waiting: { key: Key; resolve(value: Value | Promise<Value>): void; reject(error: unknown): void }[] = []
  /** settles with the last question that was put */
  let underWay: Promise<unknown> | null = null

  async function begin(): Promise<void> {
    const before = underWay
    if (before && patienceMs > 0) await first(before, patienceMs)
    else await nextTurn()
    const now = ask().finally(() => {
      if (underWay === now) underWay = null
    })
    underWay = now
  }

  async function ask(): Promise<void> {
    const asked = waiting
    waiting = []
    for (let start = 0; start < asked.length; start += MAX_KEYS) {
      const some = asked.slice(start, start + MAX_KEYS)
      try {
        const values = await fetch(some.map(({ key }) => key))
        some.forEach(({ resolve }, i) => {
          resolve(values[i] as Value | Promise<Value>)
        })
      } catch (error) {
        for (const { reject } of some) reject(error)
      }
    }
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) void begin()
      waiting.push({ key, resolve, reject })
    })
}

async function first(end: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  })
  await Promise.race([end, limit])
  clearTimeout(timer)
}
