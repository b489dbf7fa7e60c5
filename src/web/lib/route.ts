import { useEffect, useState } from 'preact/hooks'
import { parseRoute, type Route } from './link.js'

export { linkTo, type Route } from './link.js'

/** Shows another route; @param how whether the browser's back button returns to this one */
export function go(link: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') location.hash = link
  else {
    history.replaceState(null, '', link)
    dispatchEvent(new HashChangeEvent('hashchange'))
  }
}

/** The route of the page, as it changes. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const update = () => setHash(location.hash)
    addEventListener('hashchange', update)
    return () => removeEventListener('hashchange', update)
  }, [])
  return parseRoute(hash)
}
