import t from 'tap'
import { freePort, SECRET_KEY, settingsFor, startService } from '../helper.js'
import { waitForEvents, waitForLive } from './live-site.js'
import { openWindow } from './page.js'

t.test('an open page survives a restart of the service without missing events', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), PORT: String(await freePort()) }
  const track = async (url: string, event: string) => {
    const headers = { 'content-type': 'application/json', 'x-api-key': SECRET_KEY }
    const body = JSON.stringify({ event, distinct_id: 'ada' })
    t.equal((await fetch(`${url}/public/track`, { method: 'POST', headers, body })).status, 200)
  }
  const first = await startService(t, env)
  await track(first.url, 'before')
  const page = await openWindow(t, first.url)
  await page.goto(`${first.url}/#/live`)
  await page.getByLabel('Key of the project').fill(SECRET_KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await waitForEvents(page, ['before'])
  await waitForLive(page)
  first.process.kill('SIGTERM')
  await first.ended
  await page.getByRole('status').getByText('Reconnecting…').waitFor()
  const second = await startService(t, env)
  await track(second.url, 'meanwhile')
  await waitForLive(page)
  await waitForEvents(page, ['meanwhile', 'before'])
  await track(second.url, 'after')
  await waitForEvents(page, ['after', 'meanwhile', 'before'])
})
