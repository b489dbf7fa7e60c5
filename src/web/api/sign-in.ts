import { call, setCsrfToken } from './call.js'

/** Who is signed in. */
export interface SignIn {
  project: string
  kind: 'secret' | 'read'
}

interface SignInAnswer {
  session: { project: string; key_kind: SignIn['kind']; csrf_token: string; expires_at: number } | null
}

/** All tabs have one sign-in. */
const tabs = new BroadcastChannel('sign-in')

/** @param listener called when somebody has signed in or out in another tab */
export function whenOtherTab(listener: () => void): void {
  tabs.onmessage = listener
}

/** The sign-in of this browser; null if nobody is signed in. */
export async function currentSignIn(): Promise<SignIn | null> {
  return begin(await call<SignInAnswer>('GET', '/session'))
}

/** @throws CallError if the key is unknown or may not read */
export async function signInWith(key: string): Promise<SignIn> {
  await call<SignInAnswer>('POST', '/session', { apiKey: key })
  const now = await currentSignIn()
  if (!now) {
    const hint = `Allow cookies for ${location.host} in the settings of the browser, then sign in.`
    throw new Error(`The key is right, but the browser has not kept its cookie. ${hint}`)
  }
  tabs.postMessage('signed in')
  return now
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session')
  tabs.postMessage('signed out')
}

function begin({ session }: SignInAnswer): SignIn | null {
  if (!session) return null
  setCsrfToken(session.csrf_token)
  return { project: session.project, kind: session.key_kind }
}
