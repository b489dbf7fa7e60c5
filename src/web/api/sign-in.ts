import type { ProjectSettings } from '../../contract/project-settings.js'
import { setProjectSettings } from '../lib/project-settings.js'
import { call, send, setSignIn } from './call.js'

/** The project and kind of key that the user is signed in with. */
export interface Access {
  project: string
  keyKind: 'secret' | 'read'
}

interface SignInResponse {
  session: {
    project: string
    key_kind: Access['keyKind']
    settings: ProjectSettings
    csrf_token: string
    expires_at: number
  } | null
}

type Session = NonNullable<SignInResponse['session']>

/** All tabs share one sign-in. */
const tabs = new BroadcastChannel('sign-in')
/** The project that this tab shows; null while nobody is signed in to one. */
let shown: string | null = null
/** The number of times that this tab has begun to sign in or out. */
let changes = 0
let lastCall: Promise<unknown> = Promise.resolve()
/** Ends the reads of the access when this tab signs in or out, which must not wait for one that hangs. */
let reads = new AbortController()

/** @param listener called when another tab has signed in or out */
export function onOtherTabSignIn(listener: () => void): void {
  tabs.onmessage = listener
}

/**
 * The access of this browser; null if nobody is signed in. Access to another project than this tab shows is not used:
 * with its CSRF token, this tab could change that project.
 */
export async function readAccess(): Promise<Access | null> {
  const { signal } = reads
  const { session } = await inTurn(() => call<SignInResponse>('GET', '/session', undefined, signal))
  if (session && (shown ?? session.project) === session.project) show(session)
  return session && toAccess(session)
}

/** Reads the access again. @param report not called if this tab signs in or out in the meantime @throws CallError */
export async function checkAccess(report: (access: Access | null) => void): Promise<void> {
  const before = changes
  const access = await readAccess().catch((error) => {
    if (before === changes) throw error
    return null
  })
  if (before === changes) report(access)
}

function beginChange(): void {
  changes++
  reads.abort()
  reads = new AbortController()
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Access> {
  beginChange()
  const { session } = await inTurn(async () => {
    await send('POST', '/session', { apiKey: key })
    // The browser has the cookie now, whatever becomes of the next call.
    tabs.postMessage('signed in')
    return await call<SignInResponse>('GET', '/session')
  })
  if (!session) {
    const hint = `Allow cookies for ${location.host} in the settings of the browser, then sign in.`
    throw new Error(`The key is correct, but the browser did not keep the cookie. ${hint}`)
  }
  show(session)
  return toAccess(session)
}

export async function signOut(): Promise<void> {
  beginChange()
  await inTurn(() => call('DELETE', '/session'))
  shown = null
  tabs.postMessage('signed out')
}

/**
 * Calls one after another, because each sets the cookie: the response to a read that comes after a sign-out would undo
 * it.
 */
async function inTurn<T>(act: () => Promise<T>): Promise<T> {
  const turn = lastCall.then(act)
  lastCall = turn.catch(() => undefined)
  return await turn
}

function show({ project, csrf_token, settings }: Session): void {
  shown = project
  setSignIn(project, csrf_token)
  setProjectSettings(settings)
}

function toAccess({ project, key_kind }: Session): Access {
  return { project, keyKind: key_kind }
}
