import { call, setCsrfToken } from './call.js'

/** The project and key kind of the current session. */
export interface Access {
  project: string
  keyKind: 'secret' | 'read'
}

interface SessionResponse {
  session: { project: string; key_kind: Access['keyKind']; csrf_token: string; expires_at: number } | null
}

/** All tabs share one session. */
const tabs = new BroadcastChannel('session')

/** @param listener called when another tab has signed in or out */
export function onOtherTabSignIn(listener: () => void): void {
  tabs.onmessage = listener
}

/** The access of this browser's session; null if nobody is signed in. */
export async function readAccess(): Promise<Access | null> {
  return toAccess(await call<SessionResponse>('GET', '/session'))
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Access> {
  await call<SessionResponse>('POST', '/session', { apiKey: key })
  const session = await readAccess()
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

function toAccess({ session }: SessionResponse): Access | null {
  if (!session) return null
  setCsrfToken(session.csrf_token)
  return { project: session.project, keyKind: session.key_kind }
}
