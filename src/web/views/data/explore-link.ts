import { createDraft, linkToExplore, toQuestion } from '../../lib/question.js'

/** The link to how often an event happened lately; with a property, for each of its values. */
export function linkToEvent(event: string, property?: string): string {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions()
  const question = createDraft('series', event, timeZone)
  const breakdown = property === undefined ? {} : { breakdown: [['properties', property]] }
  return linkToExplore({ ...toQuestion(question), ...breakdown }, { range: '30d' })
}
