import type { ProjectSettings } from '../../contract/project-settings.js'
import { setProjectSettings } from '../lib/project-settings.js'
import { call, setCsrfToken } from './call.js'

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

/** All tabs share one sign-in. */
const tabs = new BroadcastChannel('sign-in')

/** @param listener called when another tab has signed in or out */
export function onOtherTabSignIn(listener: () => void): void {
  tabs.onmessage = listener
}

/** The access of this browser; null if nobody is signed in. */
export async function readAccess(): Promise<Access | null> {
  return toAccess(await call<SignInResponse>('GET', '/session'))
}

/** @throws CallError if the key is unknown or may not read */
export async function signIn(key: string): Promise<Access> {
  await call<SignInResponse>('POST', '/session', { apiKey: key })
  const access = await readAccess()
  if (!access) {
    const hint = `Allow cookies for ${location.host} in the settings of the browser, then sign in.`
    throw new Error(`The key is correct, but the browser did not keep the cookie. ${hint}`)
  }
  tabs.postMessage('signed in')
  return access
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session')
  tabs.postMessage('signed out')
}

function toAccess({ session }: SignInResponse): Access | null {
  if (!session) return null
  setCsrfToken(session.csrf_token)
  setProjectSettings(session.settings)
  return { project: session.project, keyKind: session.key_kind }
}
