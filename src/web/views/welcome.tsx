import { useEffect, useRef, useState } from 'preact/hooks'
import { followEvents } from '../api/live-events.js'
import type { SignIn } from '../api/sign-in.js'
import { BASE } from '../lib/base.js'
import { snippetsFor } from '../lib/snippets.js'
import { Code } from '../ui/code.js'
import { Tabs } from '../ui/tabs.js'

interface WelcomeProps {
  signIn: SignIn
  /** called when the first event has arrived */
  onFirstEvent: () => void
}

/** Shown in the place of a view that has nothing to show yet: how to send a first event, until that arrives. */
export default function Welcome({ signIn, onFirstEvent }: WelcomeProps) {
  const [selected, setSelected] = useState(0)
  const arrived = useRef(onFirstEvent)
  arrived.current = onFirstEvent
  useEffect(() => {
    const stop = new AbortController()
    const listener = {
      onLatest: ({ events }: { events: unknown[] }) => events.length > 0 && arrived.current(),
      onEvents: () => arrived.current(),
      onState: () => undefined,
    }
    void followEvents({ event: '', distinctId: '' }, listener, stop.signal)
    return () => stop.abort()
  }, [])
  const snippets = snippetsFor(BASE)
  const { title = '', install, code = '', page, note } = snippets[selected] ?? {}
  return (
    <div class="welcome">
      <h1>Send your first event</h1>
      <p class="live-status live" role="status">
        Waiting for it. This page changes by itself when it arrives.
      </p>
      <Tabs
        label="Ways to send events"
        titles={snippets.map(({ title }) => title)}
        selected={selected}
        onSelect={setSelected}
      >
        {install && <Code text={install} label="What to install" />}
        <Code key={title} text={code} label={`An event from ${title}`} />
        {page && (
          <>
            <p class="hint">Or from a page:</p>
            <Code key={`${title} page`} text={page} label={`${title} in a page`} />
          </>
        )}
        {note && <p class="hint">{note}</p>}
      </Tabs>
      <section class="card">
        <h2>The key</h2>
        <p>
          Put a write key in the place of <code>YOUR_WRITE_KEY</code>. It sends events and can read nothing. To make
          one, run this where the service runs; it is shown only once:
        </p>
        <Code
          text={`npx tallyhouse keys create --project ${signIn.project} --kind write`}
          label="How to make a write key"
        />
      </section>
      <section class="card">
        <h2>Only looking around?</h2>
        <p>
          This makes a project with a year of an invented shop, and prints a key to sign in with. Your own project stays
          empty.
        </p>
        <Code text="npx tallyhouse demo" label="How to get a project to look at" />
      </section>
      <p class="hint">
        Other languages send the same JSON as curl does: see the <a href={`${BASE}/docs/`}>API reference</a>.
      </p>
    </div>
  )
}
