import t from 'tap'
import { openWindow, startSite } from './page.js'

t.test("the page with the reference has the product's title and logo, and a call from it logs no errors", async (t) => {
  const { url } = await startSite(t)
  const page = await openWindow(t, url)
  const messages: string[] = []
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(error.message))
  page.on('requestfailed', (request) => messages.push(request.url()))
  await page.goto(`${url}/docs`)
  t.equal(await page.title(), 'Tallyhouse API')
  const logo = await page.waitForSelector('.topbar img')
  t.match(Buffer.from((await logo.getAttribute('src'))?.split(',')[1] ?? '', 'base64').toString(), '>Tallyhouse</text>')
  await page.click('#operations-Operation-live .opblock-summary-control')
  await page.click('.try-out__btn')
  await page.click('.execute')
  await page.waitForSelector('.live-responses-table')
  t.match(await page.textContent('.live-responses-table tbody .response-col_status'), '200')
  t.strictSame(messages, [])
})
