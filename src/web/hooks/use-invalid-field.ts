import { createContext } from 'preact'
import { useContext, useLayoutEffect } from 'preact/hooks'

/**
 * Changes the count of the invalid fields in a form. A form provides the setter of its count, and cannot be used until
 * the count is 0.
 */
export const InvalidFieldsContext = createContext<(change: (count: number) => number) => void>(() => undefined)

/** Counts a field among the invalid ones of its form while it is invalid and shown. */
export function useInvalidField(isInvalid: boolean): void {
  const count = useContext(InvalidFieldsContext)
  // A layout effect, so that it runs before the user can press the button of the form.
  useLayoutEffect(() => {
    if (!isInvalid) return
    count((before) => before + 1)
    return () => count((before) => before - 1)
  }, [isInvalid, count])
}
