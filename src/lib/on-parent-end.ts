const CHECK_MS = 250

/** Calls `end` once the parent of this process has ended for any reason. Does not keep the process alive. */
export function onParentEnd(parent: number, end: () => void): void {
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    end()
  }, CHECK_MS)
  timer.unref()
}
