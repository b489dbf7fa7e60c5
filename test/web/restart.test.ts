import t from 'tap'
import { type Client, SECRET_KEY, settingsFor, startApp } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { waitForEvents, waitForLive } from './live-site.js'
import { openWindow } from './page.js'

t.test('an open page survives a restart of the service without missing events', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const first = await startApp(t, env)
  const url = await addressOf(first)
  const track = async ({ call }: Client, event: string) => {
    t.equal((await call('POST', '/public/track', { event, distinct_id: 'ada' })).statusCode, 200)
  }
  await track(first, 'before')
  const page = await openWindow(t, url)
  await page.goto(`${url}/#/live`)
  await page.getByLabel('Key of the project').fill(SECRET_KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await waitForEvents(page, ['before'])
  await waitForLive(page)
  await first.app.close()
  await page.getByRole('status').getByText('Reconnecting…').waitFor()
  const second = await startApp(t, env)
  await second.app.listen({ host: '127.0.0.1', port: Number(new URL(url).port) })
  await track(second, 'meanwhile')
  await waitForLive(page)
  await waitForEvents(page, ['meanwhile', 'before'])
  await track(second, 'after')
  await waitForEvents(page, ['after', 'meanwhile', 'before'])
})
