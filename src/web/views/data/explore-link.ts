import { createDraft, linkToExplore, toQuestion } from '../../lib/question.js'

/** A link to Explore for the recent count of an event, optionally by the values of a property. */
export function linkToEvent(event: string, property?: string): string {
  const question = createDraft('series', event)
  const breakdown = property === undefined ? {} : { breakdown: [['properties', property]] }
  return linkToExplore({ ...toQuestion(question), ...breakdown }, { range: '30d' })
}
