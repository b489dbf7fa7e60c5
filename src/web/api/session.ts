import { CallError, call, useToken } from './call.js'

/** Who is signed in. */
export interface Session {
  project: string
  kind: 'secret' | 'read'
}

interface SessionAnswer {
  session: { project: string; key_kind: Session['kind']; csrf_token: string; expires_at: number }
}

/** The session of this browser; null if nobody is signed in. */
export async function currentSession(): Promise<Session | null> {
  try {
    return begin(await call<SessionAnswer>('GET', '/session'))
  } catch (error) {
    if (error instanceof CallError && error.status === 401) return null
    throw error
  }
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Session> {
  return begin(await call<SessionAnswer>('POST', '/session', { apiKey: key }))
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session')
}

function begin({ session }: SessionAnswer): Session {
  useToken(session.csrf_token)
  return { project: session.project, kind: session.key_kind }
}
