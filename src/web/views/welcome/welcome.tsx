import { useEffect, useState } from 'preact/hooks'
import { followEvents } from '../../api/live-events.js'
import type { Access } from '../../api/sign-in.js'
import { BASE_URL } from '../../lib/base-url.js'
import { linkTo } from '../../lib/navigation.js'
import { useLatest } from '../../lib/use-latest.js'
import * as cardStyles from '../../ui/card.module.css'
import { Code } from '../../ui/code.js'
import * as liveStatusStyles from '../../ui/live-status.module.css'
import { Tabs } from '../../ui/tabs.js'
import * as textStyles from '../../ui/text.module.css'
import { buildSnippets } from './snippets.js'
import * as styles from './welcome.module.css'

interface WelcomeProps {
  access: Access
  /** called when the first event has arrived */
  onFirstEvent: () => void
}

/** Shows how to send a first event, until one arrives. */
export default function Welcome({ access, onFirstEvent }: WelcomeProps) {
  const [selected, setSelected] = useState(0)
  const arrived = useLatest(onFirstEvent)
  useEffect(() => {
    const stop = new AbortController()
    const listener = {
      onLatest: ({ events }: { events: unknown[] }) => events.length > 0 && arrived.current(),
      onEvents: () => arrived.current(),
      onState: () => undefined,
    }
    void followEvents({ event: '', distinctId: '' }, listener, stop.signal)
    return () => stop.abort()
  }, [arrived])
  const snippets = buildSnippets(BASE_URL)
  const mayCreate = access.keyKind === 'secret'
  const { title = '', install, code = '', page, note } = snippets[selected] ?? {}
  return (
    <div class={styles.welcome}>
      <h1>Send your first event</h1>
      <p class={liveStatusStyles.status} data-state="live" role="status">
        Waiting for your first event. This page updates automatically when it arrives.
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
            <p class={textStyles.hint}>Or from a web page:</p>
            <Code key={`${title} page`} text={page} label={`${title} in a web page`} />
          </>
        )}
        {note && <p class={textStyles.hint}>{note}</p>}
      </Tabs>
      <section class={cardStyles.card}>
        <h2>The key</h2>
        <p>
          Replace <code>YOUR_WRITE_KEY</code> with a write key, which can send data but not read any.{' '}
          {mayCreate ? (
            <>
              Create one in <a href={linkTo(['settings'])}>Settings</a>.
            </>
          ) : (
            'To create one, run this on the machine of the service; the key is shown only once:'
          )}
        </p>
        {!mayCreate && (
          <Code
            text={`npx tallyhouse keys create --project ${access.project} --kind write`}
            label="How to create a write key"
          />
        )}
      </section>
      <section class={cardStyles.card}>
        <h2>Only looking around?</h2>
        <p>
          This creates a project with a year of data from an invented shop, and prints a key to sign in with. Your own
          project stays empty.
        </p>
        <Code text="npx tallyhouse demo" label="How to get a sample project" />
      </section>
      <p class={textStyles.hint}>
        In other languages, send the same JSON as with curl: see the <a href={`${BASE_URL}/docs/`}>API reference</a>.
      </p>
    </div>
  )
}
