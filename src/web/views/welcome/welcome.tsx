import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { createKey } from '../../api/keys.js'
import { followEvents } from '../../api/live-events.js'
import type { Access } from '../../api/sign-in.js'
import { useAction } from '../../hooks/use-action.js'
import { useLatest } from '../../hooks/use-latest.js'
import { BASE_URL } from '../../lib/base-url.js'
import { linkTo } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Code } from '../../ui/code.js'
import * as liveStatusStyles from '../../ui/live-status.module.css'
import { Failure } from '../../ui/notice.js'
import { Tabs } from '../../ui/tabs.js'
import * as textStyles from '../../ui/text.module.css'
import { buildSnippets, PLACEHOLDER } from './snippets.js'
import * as styles from './welcome.module.css'

export interface WelcomeProps {
  access: Access
  /** called when the first event has arrived */
  onFirstEvent: () => void
}

/** Shows how to send a first event, until one arrives. */
export default function Welcome({ access, onFirstEvent }: WelcomeProps) {
  const [selected, setSelected] = useState(0)
  const [key, setKey] = useState<string | null>(null)
  const created = useRef<HTMLParagraphElement>(null)
  useLayoutEffect(() => {
    // The button that had the focus is gone.
    if (key !== null) created.current?.focus()
  }, [key])
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
  const snippets = buildSnippets(BASE_URL, key ?? PLACEHOLDER)
  const { title = '', install, code = '', note, more } = snippets[selected] ?? {}
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
        {note && <p class={textStyles.hint}>{note}</p>}
        {more && (
          <>
            <p class={textStyles.hint}>{more[0]}</p>
            <Code key={`${title} more`} text={more[1]} label={`More from ${title}`} />
          </>
        )}
      </Tabs>
      <section class={cardStyles.card} aria-label="The key">
        <h2>The key</h2>
        {key !== null ? (
          <p ref={created} tabIndex={-1}>
            The code above has your new write key. <strong>It is shown only this once.</strong> You can limit it to your
            sites, or revoke it, in <a href={linkTo(['settings'])}>Settings</a>.
          </p>
        ) : (
          <>
            <p>
              Replace <code>{PLACEHOLDER}</code> with a write key, which can send data but not read any.
            </p>
            {access.keyKind === 'secret' ? (
              <CreateKey onCreated={setKey} />
            ) : (
              <>
                <p>To create one, run this on the machine of the service; the key is shown only once:</p>
                <Code
                  text={`npx tallyhouse keys create --project ${access.project} --kind write`}
                  label="How to create a write key"
                />
              </>
            )}
          </>
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

function CreateKey({ onCreated }: { onCreated: (key: string) => void }) {
  const { error, isBusy, run } = useAction()
  const create = async () => {
    const { apiKey } = await createKey({ kind: 'write', label: 'First write key', origins: [], events_only: false })
    onCreated(apiKey)
  }
  return (
    <>
      <Button look="primary" disabled={isBusy} onClick={() => void run(create)}>
        Create a write key
      </Button>
      {error && <Failure error={error} />}
    </>
  )
}
