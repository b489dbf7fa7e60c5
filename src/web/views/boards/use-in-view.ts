import { useEffect, useState } from 'preact/hooks'

/** What is so far below or above what is seen counts as seen: it is ready when people get there. */
const MARGIN = '200px'

/** Whether an element is in sight. */
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
