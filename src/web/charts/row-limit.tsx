import { type ComponentChildren, createContext } from 'preact'
import { useContext, useState } from 'preact/hooks'
import { Button } from '../ui/button.js'

/** How many rows a chart shows at first. A board limits them, so that its cards have similar heights. */
export const RowLimitContext = createContext(Number.POSITIVE_INFINITY)

/** A button that replaces fewer rows than this would save no space. */
const MIN_HIDDEN = 3

/** Limits the rows of a chart. @returns how many to show, and the button for all of them if some are hidden */
export function useRowLimit(count: number): { limit: number; more: ComponentChildren } {
  const limit = useContext(RowLimitContext)
  const [showsAll, setShowsAll] = useState(false)
  if (showsAll || count < limit + MIN_HIDDEN) return { limit: Number.POSITIVE_INFINITY, more: null }
  const more = (
    <Button look="link" onClick={() => setShowsAll(true)}>
      Show all {count} rows
    </Button>
  )
  return { limit, more }
}
