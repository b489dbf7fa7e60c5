import type { ComponentType } from 'preact'
import { useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { CallError, noteSignedIn, noteSignedOut, whenSignedOut } from './api/call.js'
import { currentSignIn, type SignIn, signOut, whenOtherTab } from './api/sign-in.js'
import { BASE } from './lib/base.js'
import { parseRoute } from './lib/link.js'
import { isGuarded, type Route, useRoute } from './lib/route.js'
import { useLatest } from './lib/use-latest.js'
import { useLoaded } from './lib/use-loaded.js'
import { usePoll } from './lib/use-poll.js'
import { Failure, Loading, PartMissing } from './ui/notice.js'
import { Trouble } from './ui/trouble.js'
import { NeedsEvents } from './views/needs-events.js'
import { SignInAgain, SignInForm } from './views/sign-in.js'
import type { ViewProps } from './views/view-props.js'

const DAY_MS = 86_400_000

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
  const found = useLoaded('sign-in', currentSignIn)
  // Nearly everyone is signed in: the view does not wait for the service to say so.
  useEffect(() => void VIEWS[nameOf(parseRoute(location.hash))]?.load().catch(() => undefined), [])
  const [failure, setFailure] = useState<Error | null>(null)
  const [signIn, setSignIn] = useState<SignIn | null>(null)
  const [ending, setEnding] = useState('')
  // Before anything is drawn: no form to sign in for somebody who is signed in.
  useLayoutEffect(() => setSignIn(found.value), [found.value])
  useEffect(() => whenSignedOut(setEnding), [])
  const begin = (next: SignIn) => {
    setSignIn(next)
    setEnding('')
  }
  useEffect(() => {
    // Not before the view of another project is gone, which waits for the next sign-in, too.
    if (signIn && ending === '') noteSignedIn()
  }, [signIn, ending])
  useOtherTabs(signIn, begin)
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />
  if (found.isLoading) return <Loading what="the page" />
  if (!signIn) {
    return (
      <main class="sign-in">
        <SignInForm onSignedIn={begin} />
      </main>
    )
  }
  return (
    <>
      <Shell
        signIn={signIn}
        failure={failure}
        isCovered={ending !== ''}
        onSignOut={async () => {
          try {
            await signOut()
          } catch (error) {
            // The cookie is still good: somebody at a shared computer has to know.
            if (!(error instanceof CallError && error.status === 401)) return setFailure(error as Error)
          }
          setFailure(null)
          setEnding('')
          setSignIn(null)
        }}
      />
      {ending !== '' && <SignInAgain reason={ending} onSignedIn={begin} />}
    </>
  )
}

/** Follows what people do in other tabs, which have the same session; what is not saved yet stays. */
function useOtherTabs(signIn: SignIn | null, begin: (signIn: SignIn) => void): void {
  const latest = useLatest({ signIn, begin })
  useEffect(() => {
    whenOtherTab(async () => {
      const { signIn, begin } = latest.current
      const next = await currentSignIn().catch(() => null)
      if (next && next.project === signIn?.project) return begin(next)
      if (!isGuarded()) return location.reload()
      noteSignedOut(next ? `Another tab is signed in to ${next.project} now.` : 'Somebody signed out in another tab.')
    })
  }, [latest])
}

interface ShellProps {
  signIn: SignIn
  /** why signing out failed */
  failure: Error | null
  /** whether nobody may see it for now */
  isCovered: boolean
  onSignOut: () => void
}

function Shell({ signIn, failure, isCovered, onSignOut }: ShellProps) {
  const route = useRoute()
  // A page that is kept open stays signed in.
  usePoll(() => {
    currentSignIn().then(
      (now) => now ?? noteSignedOut('You have been signed out: sign in again.'),
      () => undefined,
    )
  }, DAY_MS)
  const name = nameOf(route)
  const title = VIEWS[name]?.title ?? ''
  useEffect(() => {
    document.title = `${title} – Tallyhouse`
  }, [title])
  return (
    <div class={isCovered ? 'shell covered' : 'shell'}>
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
            {signIn.project} <small>{signIn.kind} key</small>
          </span>
          <a href={`${BASE}/docs/`}>API reference</a>
          <button type="button" class="plain" onClick={onSignOut}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Trouble />
        {failure && <Failure error={failure} />}
        <CurrentView key={`${name} ${signIn.project}`} name={name} signIn={signIn} route={route} />
      </main>
    </div>
  )
}

function nameOf({ view }: Route): string {
  return Object.hasOwn(VIEWS, view) ? view : ''
}

function CurrentView({ name, ...props }: ViewProps & { name: string }) {
  const [fault, again] = useErrorBoundary()
  // Another place in the same view may be one that can be shown.
  const shown = useRef(props.route)
  useLayoutEffect(() => {
    if (shown.current === props.route) return
    shown.current = props.route
    again()
  }, [props.route, again])
  const { value, error } = useLoaded(name, async () => (await VIEWS[name]?.load())?.default)
  if (fault) return <Failure error={new Error(`This view cannot be shown: ${fault.message}.`)} onRetry={again} />
  if (error) return <PartMissing />
  if (!value) return <Loading what="the view" />
  const Content = value
  if (!VIEWS[name]?.needsEvents) return <Content {...props} />
  return (
    <NeedsEvents signIn={props.signIn}>
      <Content {...props} />
    </NeedsEvents>
  )
}

function focusMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}
