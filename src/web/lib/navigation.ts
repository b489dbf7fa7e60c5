import { useEffect, useMemo, useState } from 'preact/hooks'
import { parseRoute, type Route } from './route.js'

/** Navigates to a route. @param how whether it adds a history entry */
export function navigate(link: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') location.hash = link
  else {
    history.replaceState(history.state, '', link)
    dispatchEvent(new HashChangeEvent('hashchange'))
  }
}

/** Asks before the user leaves a route; @param leave continues the navigation */
type Guard = (leave: () => void) => void

let guard: Guard | null = null

/** Sets the guard that is asked before the current route is left; null removes it. */
export function guardRoute(next: Guard | null): void {
  guard = next
}

/** Whether the current route has unsaved changes. */
export function isGuarded(): boolean {
  return guard !== null
}

/** The current route; updates on navigation. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    let shown = { hash: location.hash, place: readHistoryIndex(0) }
    const show = () => {
      shown = { hash: location.hash, place: readHistoryIndex(shown.place + 1) }
      setHash(shown.hash)
    }
    const update = () => {
      if (!guard || location.hash === shown.hash) return show()
      const { hash } = location
      const step = readHistoryIndex(shown.place + 1) - shown.place
      const move = (by: number, to: string) => (by === 0 ? navigate(to, 'replace') : history.go(by))
      move(-step, shown.hash)
      guard(() => {
        guard = null
        move(step, hash)
      })
    }
    addEventListener('hashchange', update)
    return () => removeEventListener('hashchange', update)
  }, [])
  return useMemo(() => parseRoute(hash), [hash])
}

/** The index of the current history entry among the page's entries. @param next index for a new entry */
function readHistoryIndex(next: number): number {
  const state: { place?: number } | null = history.state
  if (typeof state?.place === 'number') return state.place
  history.replaceState({ place: next }, '')
  return next
}

/**
 * Stores a value with the current history entry, for when the user goes back to that entry.
 * @param value undefined removes it
 */
export function keepInEntry(name: string, value: unknown): void {
  history.replaceState({ ...history.state, [name]: value }, '')
}

/** The value that `keepInEntry` stored with the current history entry. */
export function readFromEntry(name: string): unknown {
  return history.state?.[name]
}
