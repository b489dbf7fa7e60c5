import type { FunctionComponent } from 'preact'
import { useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { DAY_MS } from '../contract/durations.js'
import type { EventNames } from '../contract/responses.js'
import { CallError, noteSignedIn, noteSignedOut, onSignedOut } from './api/call.js'
import { listEventNames } from './api/schema.js'
import { type Access, checkAccess, onOtherTabSignIn, readAccess, signOut } from './api/sign-in.js'
import * as styles from './app.module.css'
import { useAction } from './hooks/use-action.js'
import { useLatest } from './hooks/use-latest.js'
import { useLoaded } from './hooks/use-loaded.js'
import { usePoll } from './hooks/use-poll.js'
import { BASE_URL } from './lib/base-url.js'
import { escapeInvisible } from './lib/escape-invisible.js'
import { isGuarded, useRoute } from './lib/navigation.js'
import { getProjectSettings, isPageView, onProjectSettings } from './lib/project-settings.js'
import { parseRoute } from './lib/route.js'
import { Button } from './ui/button.js'
import { Failure, Loading, PartMissing } from './ui/notice.js'
import { OutageBanner } from './ui/outage-banner.js'
import { SignInAgain, SignInForm } from './views/sign-in.js'
import * as signInStyles from './views/sign-in.module.css'
import type { ViewProps } from './views/view-props.js'
import type { WelcomeProps } from './views/welcome/welcome.js'

interface View {
  title: string
  /** whether a project without events gets the welcome page instead */
  needsEvents?: true
  /** whether it is hidden in a project without page views */
  needsPageViews?: true
  load: () => Promise<{ default: FunctionComponent<ViewProps> }>
}

/** By the first part of the route, in navigation order. Each view is loaded when first shown. */
const VIEWS: Record<string, View> = {
  web: { title: 'Web', needsEvents: true, needsPageViews: true, load: () => import('./views/web/web.js') },
  boards: { title: 'Boards', needsEvents: true, load: () => import('./views/boards/boards.js') },
  live: { title: 'Live', needsEvents: true, load: () => import('./views/live/live.js') },
  explore: { title: 'Explore', needsEvents: true, load: () => import('./views/explore/explore.js') },
  users: { title: 'Users', load: () => import('./views/users/users.js') },
  data: { title: 'Data', load: () => import('./views/data/data.js') },
  health: { title: 'Health', load: () => import('./views/health/health.js') },
  settings: { title: 'Settings', load: () => import('./views/settings/settings.js') },
}

export function App() {
  const loaded = useLoaded('sign-in', readAccess)
  // Most visitors are signed in, so the view loads in parallel with the check.
  useEffect(() => {
    const { view } = parseRoute(location.hash)
    for (const one of view === '' ? ['overview', 'web'] : [view]) {
      VIEWS[findViewName(one)]?.load().catch(() => undefined)
    }
  }, [])
  const { error: failure, isBusy, run } = useAction()
  const [access, setAccess] = useState<Access | null>(null)
  const [ending, setEnding] = useState('')
  // Done before painting, so that a signed-in user never sees the sign-in form.
  useLayoutEffect(() => setAccess(loaded.value), [loaded.value])
  useEffect(() => onSignedOut(setEnding), [])
  const begin = (next: Access) => {
    setAccess(next)
    setEnding('')
    noteSignedIn()
  }
  useSharedSignIn(access, begin)
  if (loaded.error) return <Failure error={loaded.error} onRetry={loaded.reload} />
  if (loaded.isLoading) return <Loading what="the page" />
  if (!access) {
    return (
      <main class={signInStyles.signIn}>
        <SignInForm onSignedIn={begin} />
      </main>
    )
  }
  return (
    <>
      <Shell
        access={access}
        failure={failure}
        isCovered={ending !== ''}
        isSigningOut={isBusy}
        onSignOut={() =>
          run(async () => {
            try {
              await signOut()
            } catch (error) {
              // The cookie is still valid, which matters on a shared computer.
              if (!(error instanceof CallError && error.status === 401)) throw error
            }
            setEnding('')
            setAccess(null)
          })
        }
      />
      {ending !== '' && <SignInAgain reason={ending} onSignedIn={begin} />}
    </>
  )
}

/** Keeps the user of an open page signed in, and follows other tabs, which share this; unsaved changes are kept. */
function useSharedSignIn(access: Access | null, begin: (access: Access) => void): void {
  const follow = useLatest((next: Access | null) => {
    if (next && next.project === access?.project) return begin(next)
    if (!isGuarded()) return location.reload()
    noteSignedOut(next ? `You signed in to ${next.project} in another tab.` : 'You signed out in another tab.')
  })
  useEffect(() => {
    onOtherTabSignIn(() => {
      checkAccess((next) => follow.current(next)).catch(() => follow.current(null))
    })
  }, [follow])
  usePoll(() => {
    if (!access) return
    checkAccess((next) => {
      if (next) follow.current(next)
      else noteSignedOut('You have been signed out. Sign in again.')
    }).catch(() => undefined)
  }, DAY_MS)
}

interface ShellProps {
  access: Access
  /** the error of a failed sign-out */
  failure: Error | null
  /** whether the content is hidden behind the sign-in form */
  isCovered: boolean
  isSigningOut: boolean
  onSignOut: () => void
}

function Shell({ access, failure, isCovered, isSigningOut, onSignOut }: ShellProps) {
  const [{ name: projectName, timezone, first_view }, setSettings] = useState(getProjectSettings)
  useLayoutEffect(() => onProjectSettings(setSettings), [])
  const given = useRoute()
  const { hasPageViews, isEmpty, noteFirstEvent } = useProjectEvents(access.project, given.view)
  // A link without a view leads to the view that the project opens first.
  const view = given.view || first_view || chooseFirstView(hasPageViews)
  const route = useMemo(() => ({ ...given, view }), [given, view])
  const name = view && findViewName(view)
  const title = VIEWS[name]?.title
  useEffect(() => {
    document.title = title ? `${title} – Tallyhouse` : 'Tallyhouse'
  }, [title])
  return (
    <div class={isCovered ? `${styles.shell} ${styles.covered}` : styles.shell}>
      <a class={styles.skip} href={`${location.hash || '#/'}`} onClick={focusMain}>
        Skip to content
      </a>
      <header class={styles.side}>
        <a class={styles.brand} href="#/">
          Tallyhouse
        </a>
        <nav aria-label="Views">
          {Object.entries(VIEWS)
            .filter(([view, { needsPageViews }]) => !needsPageViews || hasPageViews || view === name)
            .map(([view, { title }]) => (
              <a key={view} href={`#/${view}`} aria-current={view === name ? 'page' : undefined}>
                {title}
              </a>
            ))}
        </nav>
        <div class={styles.account}>
          <span>
            <bdi>{escapeInvisible(projectName ?? access.project)}</bdi> <small>{access.keyKind} key</small>
          </span>
          <small>Times in {timezone}</small>
          <a href={`${BASE_URL}/docs/`}>API reference</a>
          <Button look="plain" disabled={isSigningOut} onClick={onSignOut}>
            {isSigningOut ? 'Signing out…' : 'Sign out'}
          </Button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <OutageBanner />
        {failure && <Failure error={failure} />}
        {name === '' ? (
          <Loading what="the view" />
        ) : (
          <CurrentView
            key={`${name} ${access.project}`}
            name={name}
            isEmpty={isEmpty}
            access={access}
            route={route}
            onFirstEvent={noteFirstEvent}
          />
        )}
      </main>
    </div>
  )
}

interface KnownEvents {
  /** null until it is known */
  hasPageViews: boolean | null
  /** whether the project is known to have no events */
  isEmpty: boolean
  /** to be called when the first event was seen, because the service caches the names of events */
  noteFirstEvent: () => void
}

/**
 * What is known of the events of a project. Checks again whenever another view is shown, until there are page views.
 * Keeps the event names, because the settings that decide which are page views may change.
 */
function useProjectEvents(project: string, view: string): KnownEvents {
  const [kept, setKept] = useState<ProjectEvents | null>(null)
  const [filled, setFilled] = useState('')
  const isFound = kept?.project === project && hasPageView(kept)
  const { value, error, reload } = useLoaded(isFound ? null : `${project} ${view}`, async (signal) => {
    return { project, ...(await listEventNames(signal)) }
  })
  useEffect(() => {
    if (value) setKept(value)
  }, [value])
  const known = value?.project === project ? value : null
  const noteFirstEvent = () => {
    setFilled(project)
    reload()
  }
  return {
    // The view that opens despite the error will show it.
    hasPageViews: isFound || (error ? false : known && hasPageView(known)),
    isEmpty: filled !== project && known?.events.length === 0 && known.pending === 0,
    noteFirstEvent,
  }
}

type ProjectEvents = EventNames & { project: string }

function hasPageView({ events }: ProjectEvents): boolean {
  return events.some(({ event }) => isPageView(event))
}

/** The view that opens first unless the project says otherwise; empty until it is known. */
function chooseFirstView(hasPageViews: boolean | null): string {
  return hasPageViews === null ? '' : hasPageViews ? 'web' : 'overview'
}

function findViewName(view: string): string {
  return Object.hasOwn(VIEWS, view) ? view : 'boards'
}

type CurrentViewProps = ViewProps & Pick<WelcomeProps, 'onFirstEvent'> & { name: string; isEmpty: boolean }

/** The view of a name, or the welcome page while the project has no events. */
function CurrentView({ name, isEmpty, ...props }: CurrentViewProps) {
  const [renderError, reset] = useErrorBoundary()
  // After an error, another route of the same view may render.
  const shown = useRef(props.route)
  useLayoutEffect(() => {
    if (shown.current === props.route) return
    shown.current = props.route
    reset()
  }, [props.route, reset])
  const isWelcome = isEmpty && VIEWS[name]?.needsEvents === true
  const { value, error } = useLoaded<FunctionComponent<typeof props> | undefined>(`${name} ${isWelcome}`, async () => {
    return (await (isWelcome ? import('./views/welcome/welcome.js') : VIEWS[name]?.load()))?.default
  })
  if (renderError) {
    return <Failure error={new Error(`This view cannot be shown: ${renderError.message}.`)} onRetry={reset} />
  }
  if (error) return <PartMissing />
  if (!value) return <Loading what="the view" />
  const Content = value
  return <Content {...props} />
}

function focusMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}
