import type { Filter } from '../../contract/questions.js'
import type { EventName } from '../../contract/responses.js'
import { isPageView } from './project-settings.js'

/** Visits without a page view belong to servers and apps. */
export const HAS_PAGE: Filter = ['gt', 'session.pages', 0]
export const NO_BOTS: Filter = ['is_not', 'context.bot', [true]]

/** Finds the names of page views. @param events of the project */
export function findPageViews(events: readonly EventName[]): string[] {
  return events.map(({ event }) => event).filter((event) => isPageView(event))
}
