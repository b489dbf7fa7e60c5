/**
 * The result of a promise, unless the signal aborts first; the promise is not cancelled.
 * @throws the signal's reason
 */
export async function abortable<T>(result: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
