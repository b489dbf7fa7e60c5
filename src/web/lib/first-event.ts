/** Resolves at the first of some events. The end of a time is an event, too: `[AbortSignal.timeout(ms), 'abort']`. */
export function firstEvent(...events: (readonly [target: EventTarget, type: string])[]): Promise<void> {
  return new Promise((resolve) => {
    const stop = new AbortController()
    const end = () => {
      stop.abort()
      resolve()
    }
    for (const [target, type] of events) target.addEventListener(type, end, { signal: stop.signal })
  })
}
