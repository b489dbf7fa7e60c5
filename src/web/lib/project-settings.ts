import { DEFAULT_SETTINGS, type ProjectSettings } from '../../contract/project-settings.js'
import type { SessionsDefinition } from '../../contract/questions.js'

let current = DEFAULT_SETTINGS
let notifyChanged: (settings: ProjectSettings) => void = () => undefined

/** The settings of the project that the user is signed in to; before that, the defaults. */
export function getProjectSettings(): ProjectSettings {
  return current
}

/** Sets the settings as the service reports them: at each sign-in, and when they are read or saved. */
export function setProjectSettings(settings: ProjectSettings): void {
  current = settings
  notifyChanged(settings)
}

/** @param listener called when the settings are set, to render everything again */
export function onProjectSettings(listener: (settings: ProjectSettings) => void): void {
  notifyChanged = listener
}

/** Whether an event is a page view in this project. */
export function isPageView(event: string): boolean {
  return current.page_views.includes(event)
}

/** The pause after which a new visit begins, if the project has set none. */
const GAP = '30m'

/** Chooses how visits are separated: by session ids, by pauses, or by the project's definition. */
export function chooseSessions(by: string | null): SessionsDefinition {
  const { sessions } = getProjectSettings()
  if (by === 'id') return 'id'
  return by === 'gap' && sessions === 'id' ? { gap: GAP } : sessions
}
