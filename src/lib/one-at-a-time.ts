/** Returns a function that executes work once all that it was given before is settled, and returns what that returns. */
export function oneAtATime(): <T>(work: () => T | Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
}
