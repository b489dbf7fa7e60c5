/**
 * The result of a promise, if it settles in time; it is not cancelled otherwise.
 * @throws Error after `limitMs`
 */
export async function withTimeout<T>(result: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no result within ${limitMs} ms`)), limitMs)
  })
  try {
    return await Promise.race([result, late])
  } finally {
    clearTimeout(timer)
  }
}
