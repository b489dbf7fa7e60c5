import { compact, exploreLink, newQuestion } from '../../lib/question.js'

/** The link to how often an event happened lately; with a property, for each of its values. */
export function exploreEvent(event: string, property?: string): string {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions()
  const question = newQuestion('series', event, timeZone)
  const breakdown = property === undefined ? {} : { breakdown: [['properties', property]] }
  return exploreLink({ ...compact(question), ...breakdown }, { range: '30d' })
}
