import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { readEvents } from '../api/events.js'
import type { Session } from '../api/session.js'
import { useLoaded } from '../lib/use-loaded.js'

/** Projects that are known to have events, so that each is asked about once. */
const filled = new Set<string>()

/** Shows a view, but while the project has no events how to send some. */
export function NeedsEvents({ session, children }: { session: Session; children: ComponentChildren }) {
  const { project } = session
  const [isFilled, setFilled] = useState(filled.has(project))
  const found = useLoaded(isFilled ? null : project, async (signal) => {
    const { events, pending } = await readEvents({ limit: '1' }, signal)
    return { isEmpty: events.length === 0 && pending === 0 }
  })
  const isEmpty = !isFilled && found.value?.isEmpty === true
  const welcome = useLoaded(isEmpty ? 'welcome' : null, async () => (await import('./welcome.js')).default)
  const note = () => {
    filled.add(project)
    setFilled(true)
  }
  useEffect(() => {
    if (found.value?.isEmpty === false) note()
  }, [found.value])
  // Nearly all projects have some: their view does not wait for the answer.
  if (!isEmpty) return <>{children}</>
  const Welcome = welcome.value
  return Welcome && <Welcome session={session} onFirstEvent={note} />
}
