import { useState } from 'preact/hooks'

/** The state of an action of a form or a button. */
interface Action {
  /** why the last one failed */
  error: Error | null
  isBusy: boolean
  run: (act: () => Promise<void> | void) => Promise<void>
}

/** Runs the action of a form or a button, and keeps its error for display. */
export function useAction(): Action {
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const run: Action['run'] = async (act) => {
    setBusy(true)
    setError(null)
    try {
      await act()
    } catch (failure) {
      setError(failure as Error)
    }
    setBusy(false)
  }
  return { error, isBusy, run }
}
