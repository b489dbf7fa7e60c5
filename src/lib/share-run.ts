/**
 * Shares one run of a slow task among all callers that arrive while it runs, because any client can request it often.
 */
export function shareRun<T>(run: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= run().finally(() => {
      running = undefined
    })
    return running
  }
}
