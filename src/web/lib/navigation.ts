import { useEffect, useMemo, useState } from 'preact/hooks'
import { parseRoute, type Route } from './route.js'

export { linkTo, type Route } from './route.js'

/** Shows another route; @param how whether the browser's back button returns to this one */
export function navigate(link: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') location.hash = link
  else {
    history.replaceState(history.state, '', link)
    dispatchEvent(new HashChangeEvent('hashchange'))
  }
}

/** Asks before the route is left; @param leave leaves it */
type Guard = (leave: () => void) => void

let guard: Guard | null = null

/** Has the shown route be left only if the guard lets it; null lets it be left. */
export function guardRoute(next: Guard | null): void {
  guard = next
}

/** Whether something of the shown route is not saved yet. */
export function isGuarded(): boolean {
  return guard !== null
}

/** The route of the page, as it changes. */
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

/** Where the current entry of the browser's history is among those of the page. @param next the place of one that is new */
function readHistoryIndex(next: number): number {
  const state: { place?: number } | null = history.state
  if (typeof state?.place === 'number') return state.place
  history.replaceState({ place: next }, '')
  return next
}
