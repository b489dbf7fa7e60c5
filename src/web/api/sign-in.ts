import { call, setCsrfToken } from './call.js'

/** Who is signed in. */
export interface Session {
  project: string
  kind: 'secret' | 'read'
}

interface SessionAnswer {
  session: { project: string; key_kind: Session['kind']; csrf_token: string; expires_at: number } | null
}

/** All tabs have one session. */
const tabs = new BroadcastChannel('session')

/** @param listener called when somebody has signed in or out in another tab */
export function whenOtherTab(listener: () => void): void {
  tabs.onmessage = listener
}

/** The session of this browser; null if nobody is signed in. */
export async function currentSession(): Promise<Session | null> {
  return begin(await call<SessionAnswer>('GET', '/session'))
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Session> {
  await call<SessionAnswer>('POST', '/session', { apiKey: key })
  const session = await currentSession()
  if (!session) {
    const hint = `Allow cookies for ${location.host} in the settings of the browser, then sign in.`
    throw new Error(`The key is right, but the browser has not kept the cookie of the session. ${hint}`)
  }
  tabs.postMessage('signed in')
  return session
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session')
  tabs.postMessage('signed out')
}

function begin({ session }: SessionAnswer): Session | null {
  if (!session) return null
  setCsrfToken(session.csrf_token)
  return { project: session.project, kind: session.key_kind }
}
