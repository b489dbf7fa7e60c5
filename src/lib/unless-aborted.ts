/** The result of a promise, which may go on if the signal is aborted first. @throws what it was aborted with */
export async function unlessAborted<T>(result: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
