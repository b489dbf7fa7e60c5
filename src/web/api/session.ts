import { call, useToken } from './call.js'

/** Who is signed in. */
export interface Session {
  project: string
  kind: 'secret' | 'read'
}

interface SessionAnswer {
  session: { project: string; key_kind: Session['kind']; csrf_token: string; expires_at: number } | null
}

/** All tabs have one session: the others load anew when it becomes another one. */
const tabs = new BroadcastChannel('session')
tabs.onmessage = () => location.reload()

/** The session of this browser; null if nobody is signed in. */
export async function currentSession(): Promise<Session | null> {
  return begin(await call<SessionAnswer>('GET', '/session'))
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Session> {
  const session = begin(await call<SessionAnswer>('POST', '/session', { apiKey: key }))
  if (!session) throw new Error('The service began no session.')
  tabs.postMessage('signed in')
  return session
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session')
  tabs.postMessage('signed out')
}

function begin({ session }: SessionAnswer): Session | null {
  if (!session) return null
  useToken(session.csrf_token)
  return { project: session.project, kind: session.key_kind }
}
