import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { whenSignedOut } from './api/call.js'
import { currentSession, type Session, signOut } from './api/session.js'
import { type Route, useRoute } from './lib/route.js'
import { useLoaded } from './lib/use-loaded.js'
import { Failure, Loading } from './ui/notice.js'
import { NeedsEvents } from './views/needs-events.js'
import { SignIn } from './views/sign-in.js'

/** What every view is given. */
export interface ViewProps {
  session: Session
  route: Route
}

interface View {
  title: string
  /** whether a project without events gets to see how to send some instead */
  needsEvents?: true
  load: () => Promise<{ default: ComponentType<ViewProps> }>
}

/** By the first part of the route, in the order of the navigation. Each is loaded when it is first shown. */
const VIEWS: Record<string, View> = {
  '': { title: 'Boards', needsEvents: true, load: () => import('./views/boards/boards.js') },
  live: { title: 'Live', needsEvents: true, load: () => import('./views/live/live.js') },
  explore: { title: 'Explore', needsEvents: true, load: () => import('./views/explore/explore.js') },
  users: { title: 'Users', load: () => import('./views/users/users.js') },
  data: { title: 'Data', load: () => import('./views/data/data.js') },
  health: { title: 'Health', load: () => import('./views/health/health.js') },
}

export function App() {
  const found = useLoaded('session', currentSession)
  const [session, setSession] = useState<Session | null>(null)
  const [reason, setReason] = useState('')
  useEffect(() => setSession(found.value), [found.value])
  useEffect(() => {
    whenSignedOut((why) => {
      setSession(null)
      setReason(why)
    })
  }, [])
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />
  if (found.isLoading) return <Loading what="the page" />
  if (!session) return <SignIn reason={reason} onSignedIn={setSession} />
  return (
    <Shell
      session={session}
      onSignOut={async () => {
        await signOut().catch(() => undefined)
        setReason('')
        setSession(null)
      }}
    />
  )
}

function Shell({ session, onSignOut }: { session: Session; onSignOut: () => void }) {
  const route = useRoute()
  const name = route.view in VIEWS ? route.view : ''
  const title = VIEWS[name]?.title ?? ''
  useEffect(() => {
    document.title = `${title} – Tallyhouse`
  }, [title])
  return (
    <div class="shell">
      <a class="skip" href={`${location.hash || '#/'}`} onClick={focusMain}>
        Skip to the content
      </a>
      <header class="side">
        <a class="brand" href="#/">
          Tallyhouse
        </a>
        <nav aria-label="Views">
          {Object.entries(VIEWS).map(([view, { title }]) => (
            <a key={view} href={`#/${view}`} aria-current={view === name ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <div class="account">
          <span>
            {session.project} <small>{session.kind} key</small>
          </span>
          <a href="/docs">API reference</a>
          <button type="button" class="plain" onClick={onSignOut}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <CurrentView key={`${name} ${session.project}`} name={name} session={session} route={route} />
      </main>
    </div>
  )
}

function CurrentView({ name, ...props }: ViewProps & { name: string }) {
  const { value, error, reload } = useLoaded(name, async () => (await VIEWS[name]?.load())?.default)
  if (error) return <Failure error={new Error('A part of the page could not be loaded.')} onRetry={reload} />
  if (!value) return <Loading what="the view" />
  const Content = value
  if (!VIEWS[name]?.needsEvents) return <Content {...props} />
  return (
    <NeedsEvents session={props.session}>
      <Content {...props} />
    </NeedsEvents>
  )
}

function focusMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}
