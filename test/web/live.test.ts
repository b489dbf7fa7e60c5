import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { findRows, startLiveSite, waitForEvents, waitForLive } from './live-site.js'
import { checkAccessibility } from './page.js'

const site = await startLiveSite(t)
const { track } = site

async function choose(page: Page, label: string, text: string): Promise<void> {
  const field = page.getByRole('combobox', { name: label, exact: true })
  await field.fill(text)
  await field.press('Enter')
}

t.test('new events appear by themselves, newest first, and the list can be paused', async (t) => {
  const key = await site.addKey('secret', 'shop')
  await track(key, 'first', 'ada', { plan: 'pro' })
  await track(key, 'second', 'grace')
  const page = await site.visit(t, '#/live', key)
  await waitForEvents(page, ['second', 'first'])
  await waitForLive(page)
  await track(key, 'third', 'ada', { price: 1.5 })
  await findRows(page).filter({ hasText: 'third' }).waitFor()
  await waitForEvents(page, ['third', 'second', 'first'])
  await checkAccessibility(t, page, 'live events')

  await page.getByRole('button', { name: 'Pause' }).click()
  await track(key, 'fourth', 'ada')
  await page.getByRole('button', { name: 'Show 1 new event' }).waitFor()
  await track(key, 'fifth', 'ada')
  await page.getByRole('button', { name: 'Show 2 new events' }).waitFor()
  await waitForEvents(page, ['third', 'second', 'first'])
  await page.getByRole('button', { name: 'Resume' }).click()
  await waitForEvents(page, ['fifth', 'fourth', 'third', 'second', 'first'])
})

t.test('filters are part of the link, and apply to new events', async (t) => {
  const key = await site.addKey('secret', 'filters')
  for (const [event, user, plan] of [
    ['bought', 'ada', 'pro'],
    ['bought', 'grace', 'free'],
    ['left', 'ada', 'pro'],
  ] as const) {
    await track(key, event, user, { plan, cart: { items: 2 } })
  }
  const page = await site.visit(t, '#/live', key)
  await waitForEvents(page, ['left', 'bought', 'bought'])
  const event = page.getByRole('combobox', { name: 'Event', exact: true })
  await event.fill('bou')
  await page.getByRole('option', { name: 'bought' }).click()
  await waitForEvents(page, ['bought', 'bought'])
  await choose(page, 'Property', 'plan')
  await choose(page, 'is', 'pro')
  await waitForEvents(page, ['bought'])
  await waitForLive(page)
  await track(key, 'bought', 'linus', { plan: 'free' })
  await track(key, 'bought', 'mary', { plan: 'pro' })
  await findRows(page).filter({ hasText: 'mary' }).waitFor()
  await waitForEvents(page, ['bought', 'bought'])

  const other = await site.visit(t, new URL(page.url()).hash, key)
  await waitForEvents(other, ['bought', 'bought'])
  await choose(other, 'User', 'ada')
  await waitForEvents(other, ['bought'])
  await other.getByRole('button', { name: 'Clear filters' }).click()
  await waitForEvents(other, ['bought', 'bought', 'left', 'bought', 'bought'])
  // A dotted name may be a path, or a name as it is.
  await track(key, 'left', 'ada', { 'cart.items': 2 })
  await choose(other, 'Property', 'cart.items')
  await other.getByRole('combobox', { name: 'is', exact: true }).click()
  await other.getByRole('option', { name: '2' }).first().waitFor()
  t.equal(await other.getByRole('option', { name: '2' }).filter({ visible: true }).count(), 1, 'a value is listed once')
  await choose(other, 'is', '3')
  await other.getByText('No matching events yet').waitFor()
})

t.test('an event that nobody has sent is named as such, until it arrives', async (t) => {
  const key = await site.addKey('secret', 'unknown')
  await track(key, 'bought', 'ada')
  const page = await site.visit(t, '#/live', key)
  await waitForEvents(page, ['bought'])
  const event = page.getByRole('combobox', { name: 'Event', exact: true })
  const type = async (name: string) => {
    await event.fill(name)
    await page.getByRole('option', { name: `Use “${name}”` }).click()
  }
  const warnings = page.getByRole('status', { name: 'Warnings' })
  await type('bouhgt')
  await warnings.getByText('No event is called “bouhgt”. Did you mean “bought”?').waitFor()
  await page.getByText('No matching events yet').waitFor()
  await checkAccessibility(t, page, 'an unknown event')
  await warnings.getByRole('button', { name: 'Use “bought”' }).click()
  await waitForEvents(page, ['bought'])
  t.equal(await warnings.count(), 0)
  await type('nopee')
  await warnings.getByText('No event is called “nopee”.').waitFor()
  await waitForLive(page)
  await track(key, 'nopee', 'ada')
  await waitForEvents(page, ['nopee'])
  t.equal(await warnings.count(), 0)
})

t.test('a list of long values stays within a phone', async (t) => {
  const key = await site.addKey('secret', 'phone')
  const user = 'a-user-with-a-rather-long-name@shop.example.com'
  await track(key, 'bought', user)
  const page = await site.visit(t, '#/live', key)
  await waitForEvents(page, ['bought'])
  await page.setViewportSize({ width: 390, height: 844 })
  await page.getByRole('combobox', { name: 'User', exact: true }).focus()
  const option = page.getByRole('option', { name: user })
  await option.waitFor()
  const { x = 0, width = 0 } = (await option.boundingBox()) ?? {}
  t.ok(x > 0 && x + width < 390, `from ${x} px, ${width} px wide`)
  const overhang = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  t.equal(overhang, 0, 'the page does not scroll to the side')
})

t.test('events of another project are never shown', async (t) => {
  const [mine, other] = [await site.addKey('secret', 'mine'), await site.addKey('secret', 'theirs')]
  await track(mine, 'mine', 'ada')
  const id = await track(other, 'theirs', 'mallory')
  const page = await site.visit(t, '#/live', mine)
  await waitForEvents(page, ['mine'])
  await waitForLive(page)
  await track(other, 'theirs', 'mallory')
  await track(mine, 'mine too', 'ada')
  await waitForEvents(page, ['mine too', 'mine'])
  await page.goto(`${site.url}/#/live/${id}`)
  await page.getByRole('alert').getByText('no event with this id').waitFor()
  t.notMatch(await page.content(), /theirs|mallory/)
})

t.test('a hidden tab closes its stream, and catches up when it is shown', async (t) => {
  const key = await site.addKey('secret', 'hidden')
  const before = await track(key, 'before', 'ada')
  const page = await site.visitInTab(t, '#/live', key)
  await waitForLive(page)
  const streams = async () => /^tallyhouse_live_streams (\d+)$/m.exec((await site.app.inject('/metrics')).body)?.[1]
  await until('no other stream', async () => (await streams()) === '1')
  const tab = await page.context().newPage()
  await until('the end of the stream', async () => (await streams()) === '0')
  await track(key, 'meanwhile', 'ada')
  const resumed: (string | undefined)[] = []
  page.on('request', (request) => {
    if (request.url().includes('/events/live')) resumed.push(request.headers()['last-event-id'])
  })
  await tab.close()
  await page.bringToFront()
  await waitForEvents(page, ['meanwhile', 'before'])
  await waitForLive(page)
  t.strictSame(resumed, [before])
})

t.test('a filtered list catches up on more events than it can hold', async (t) => {
  const key = await site.addKey('secret', 'much')
  await track(key, 'before', 'ada', { kind: 'rare' })
  const page = await site.visitInTab(t, '#/live?property=kind&value=rare', key)
  await waitForLive(page)
  await waitForEvents(page, ['before'])
  const tab = await page.context().newPage()
  await until('the tab to be hidden', () => page.evaluate<boolean>('document.hidden'))
  await track(key, 'at once', 'ada', { kind: 'rare' })
  const send = async (count: number) => {
    const events = Array.from({ length: count }, () => ({ event: 'common', distinct_id: 'ada' }))
    await site.call('POST', '/public/track/batch', { events }, { 'x-api-key': key })
  }
  await send(700)
  await track(key, 'at last', 'ada', { kind: 'rare' })
  await page.bringToFront()
  await waitForEvents(page, ['at last', 'at once', 'before'])

  await tab.bringToFront()
  await until('the tab to be hidden', () => page.evaluate<boolean>('document.hidden'))
  await track(key, 'long ago', 'ada', { kind: 'rare' })
  for (let i = 0; i < 6; i++) await send(1000)
  await track(key, 'newest', 'ada', { kind: 'rare' })
  await tab.close()
  await page.bringToFront()
  await waitForEvents(page, ['newest'])
  t.equal(
    (await site.call('GET', '/public/events?event=long%20ago', undefined, { 'x-api-key': key })).json().events.length,
    1,
  )
})

t.test('revoking a key ends the session and shows why', async (t) => {
  const key = await site.addKey('read', 'revoked')
  const sender = await site.addKey('write', 'revoked')
  await track(sender, 'before', 'ada')
  const page = await site.visit(t, '#/live', key)
  await waitForEvents(page, ['before'])
  await waitForLive(page)
  await site.revokeKey(key)
  await page.getByRole('status').getByText('You have been signed out. Sign in again.').waitFor()
  await page.getByText('before').waitFor({ state: 'hidden' })
})
