import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { readEventNames } from '../api/schema.js'
import type { SignIn } from '../api/sign-in.js'
import { useLoaded } from '../lib/use-loaded.js'

/** Projects that are known to have events, so that each is asked about once. */
const filled = new Set<string>()

/** Shows a view, but while the project has no events how to send some. */
export function NeedsEvents({ signIn, children }: { signIn: SignIn; children: ComponentChildren }) {
  const { project } = signIn
  const [isFilled, setFilled] = useState(filled.has(project))
  const found = useLoaded(isFilled ? null : project, async (signal) => {
    // Which the service knows by heart; a first event it would have to look for.
    const { events, pending } = await readEventNames(signal)
    return { isEmpty: events.length === 0 && pending === 0 }
  })
  const isEmpty = !isFilled && found.value?.isEmpty === true
  const welcome = useLoaded(isEmpty ? 'welcome' : null, async () => (await import('./welcome.js')).default)
  const note = useCallback(() => {
    filled.add(project)
    setFilled(true)
  }, [project])
  useEffect(() => {
    if (found.value?.isEmpty === false) note()
  }, [found.value, note])
  // Nearly all projects have some: their view does not wait for the answer.
  if (!isEmpty) return <>{children}</>
  const Welcome = welcome.value
  return Welcome && <Welcome signIn={signIn} onFirstEvent={note} />
}
