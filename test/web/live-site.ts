import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { until } from '../helper.js'
import { startSite } from './page.js'

/** A site with a function that sends events. */
export async function startLiveSite(t: Test) {
  const site = await startSite(t)
  return {
    ...site,
    /** @param properties a string is sent unchanged; @returns the id of the event */
    track: async (key: string, event: string, distinct_id: string, properties: object | string = {}) => {
      const text = typeof properties === 'string' ? properties : JSON.stringify(properties)
      const names = `"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(distinct_id)}`
      const body = `{${names},"properties":${text}}`
      const response = await site.call('POST', '/public/track', body, { 'x-api-key': key })
      if (response.statusCode !== 200) throw new Error(response.body)
      return String(response.headers['x-event-id'])
    },
  }
}

export const findRows = (page: Page) => page.getByRole('list', { name: 'Events, newest first' }).getByRole('listitem')

/** The links to the events that are shown. */
export const findLinks = (page: Page) => findRows(page).locator('a[href^="#/live/"]')

/** Resolves once the stream is open. */
export const waitForLive = (page: Page) => page.getByRole('status').getByText('Live', { exact: true }).waitFor()

/** Resolves once exactly the events of these names are shown. */
export const waitForEvents = (page: Page, names: string[]) =>
  until(`${names}`, async () => JSON.stringify(await findLinks(page).allInnerTexts()) === JSON.stringify(names))
