import { useEffect, useState } from 'preact/hooks'

/** Elements this close to the viewport count as in view, so that they have loaded when the user scrolls there. */
const MARGIN = '200px'

/** Whether an element is in the viewport. */
export function useInView(element: { current: Element | null }): boolean {
  const [isInView, setInView] = useState(false)
  useEffect(() => {
    if (!element.current) return
    const observer = new IntersectionObserver(([entry]) => setInView(entry?.isIntersecting ?? false), {
      rootMargin: MARGIN,
    })
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [element])
  return isInView
}
