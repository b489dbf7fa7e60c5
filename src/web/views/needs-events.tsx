import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { listEventNames } from '../api/schema.js'
import type { Access } from '../api/sign-in.js'
import { useLoaded } from '../lib/use-loaded.js'

/** Projects known to have events, so that each is checked once. */
const filled = new Set<string>()

interface NeedsEventsProps {
  access: Access
  /** called when the welcome page has seen the first event */
  onFirstEvent: () => void
  children: ComponentChildren
}

/** Shows a view, or the welcome page while the project has no events. */
export function NeedsEvents({ access, onFirstEvent, children }: NeedsEventsProps) {
  const { project } = access
  const [isFilled, setFilled] = useState(filled.has(project))
  const loaded = useLoaded(isFilled ? null : project, async (signal) => {
    // Ask for the event names, which the service caches; it would have to search for a first event.
    const { events, pending } = await listEventNames(signal)
    return { isEmpty: events.length === 0 && pending === 0 }
  })
  const isEmpty = !isFilled && loaded.value?.isEmpty === true
  const welcome = useLoaded(isEmpty ? 'welcome' : null, async () => (await import('./welcome/welcome.js')).default)
  const note = useCallback(() => {
    filled.add(project)
    setFilled(true)
  }, [project])
  useEffect(() => {
    if (loaded.value?.isEmpty === false) note()
  }, [loaded.value, note])
  // Most projects have events, so their views do not wait for the answer.
  if (!isEmpty) return <>{children}</>
  const Welcome = welcome.value
  if (!Welcome) return null
  const proceed = () => {
    note()
    onFirstEvent()
  }
  return <Welcome access={access} onFirstEvent={proceed} />
}
