import fc from 'fast-check'
import t from 'tap'
import { indentJson } from '../../src/web/lib/json-text.js'
import { until } from '../helper.js'
import { findLinks, findRows, startLiveSite } from './live-site.js'
import { checkAccessibility } from './page.js'

const site = await startLiveSite(t)
const { track } = site

t.test('an event shows its exact properties, and can be edited and deleted after confirmation', async (t) => {
  const key = await site.addKey('secret', 'edits')
  const text = '{ "b" : 1.0, "a":12345678901234567890, "a":1e400, "u":"\\u00e9é\\u202e"}'
  await site.call('POST', '/public/users/identify', { distinct_id: 'ada' }, { 'x-api-key': key })
  const id = await track(key, 'bought', 'ada & co/?', text)
  await track(key, 'stays', 'ada')
  const page = await site.visit(t, '#/live?event=bought', key)
  await page.getByRole('link', { name: 'bought', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'bought' })
  const exact = dialog.getByRole('region', { name: 'Properties, exactly as stored' })
  await exact.waitFor()
  t.equal(await exact.textContent(), text)
  t.equal(await dialog.getByRole('region', { name: 'Properties, indented' }).textContent(), indentJson(text))
  t.equal(await dialog.getByRole('link', { name: 'ada & co/?' }).getAttribute('href'), '#/users/ada%20%26%20co%2F%3F')
  t.equal(new URL(page.url()).hash, `#/live/${id}?event=bought`)
  await checkAccessibility(t, page, 'an event')
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: site.url })
  await dialog.getByRole('button', { name: 'Copy' }).click()
  await dialog.getByText('Copied').waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), text)

  await dialog.getByRole('button', { name: 'Edit properties' }).click()
  const field = dialog.getByLabel('Properties (JSON)')
  t.equal(await field.inputValue(), text)
  await field.fill('[1]')
  await dialog.getByText('must be a JSON object').waitFor()
  await field.fill('{"a":')
  await dialog.getByText('This is not valid JSON').waitFor()
  t.equal(await dialog.getByRole('button', { name: 'Save…' }).isDisabled(), true)
  const edited = '{"price":9007199254740993,\n "n": 1.50}'
  await field.fill(edited)
  await dialog.getByRole('button', { name: 'Save…' }).click()
  await page.getByRole('dialog', { name: 'Replace' }).getByRole('button', { name: 'Replace properties' }).click()
  await until('the edit', async () => (await exact.textContent()) === edited)
  const { body } = await site.call('GET', `/public/events/${id}`, undefined, { 'x-api-key': key })
  t.ok(body.includes(edited))

  await dialog.getByRole('button', { name: 'Delete…' }).click()
  const ask = page.getByRole('dialog', { name: 'Delete this event?' })
  await ask.getByRole('button', { name: 'Cancel' }).click()
  await dialog.getByRole('button', { name: 'Delete…' }).click()
  await ask.getByRole('button', { name: 'Delete event' }).click()
  await page.getByText('No matching events yet').waitFor()
  const gone = await site.call('GET', `/public/events/${id}`, undefined, { 'x-api-key': key })
  t.equal(gone.statusCode, 404)
})

t.test('a read key cannot edit events; the dialog works with the keyboard', async (t) => {
  const key = await site.addKey('secret', 'looks')
  const id = await track(key, 'bought', 'ada', { a: 1 })
  const page = await site.visit(t, '#/live', await site.addKey('read', 'looks'))
  const link = page.getByRole('link', { name: 'bought', exact: true })
  await link.focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'bought' })
  await dialog.getByText('Sign in with a secret key').waitFor()
  t.equal(await dialog.getByRole('button', { name: /Edit|Delete/ }).count(), 0)
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'hidden' })
  // The browser hides the dialog before the page handles its close event.
  await page.waitForURL(/#\/live$/)
  const focused = () => page.evaluate<string>('document.activeElement?.getAttribute("href") ?? ""')
  await until('the focus where it was', async () => (await focused()).startsWith(`#/live/${id}`))
  await page.goto(`${site.url}/#/live/${id.slice(0, -1)}${id.endsWith('0') ? 1 : 0}`)
  await page.getByRole('alert').getByText('no event with this id').waitFor()
})

t.test('hostile events are shown as text and keep the layout intact', async (t) => {
  const key = await site.addKey('secret', 'hostile')
  const nasty = fc.constantFrom(
    '<script>document.title="run"</script>',
    '<img src=x onerror=alert(1)>',
    '"><svg onload=alert(1)>',
    'javascript:alert(1)',
    'https://elsewhere.example/',
    '=HYPERLINK("https://elsewhere.example")',
    '{{constructor.constructor("alert(1)")()}}',
    '\u202Ereversed\u202C',
    '\u0000\u0007\u001b[31m\u007f\u0085',
    '__proto__',
    'a'.repeat(255),
    '𒐫'.repeat(60),
    '\n'.repeat(40),
    ' ',
    '..',
    '%2e%2e/#?&',
  )
  const name = fc.oneof(nasty, fc.string({ minLength: 1, maxLength: 60, unit: 'grapheme' }))
  const events = fc.sample(
    fc.record({ event: name, distinct_id: name, properties: fc.dictionary(name, fc.oneof(name, fc.jsonValue())) }),
    { numRuns: 45 },
  )
  const { statusCode, body } = await site.call('POST', '/public/track/batch', { events }, { 'x-api-key': key })
  t.equal(statusCode, 200, body)
  const page = await site.visit(t, '#/live', key)
  await until('all rows', async () => (await findRows(page).count()) === events.length)
  for (const [row, sent] of [...events].reverse().entries()) {
    if (row % 9 > 0) continue
    await findLinks(page).nth(row).press('Enter')
    const exact = page.getByRole('region', { name: 'Properties, exactly as stored' })
    await exact.waitFor()
    t.equal(await exact.textContent(), JSON.stringify(sent.properties))
    const user = page.getByRole('dialog').locator('a[href^="#/users/"]')
    t.equal(decodeURIComponent((await user.getAttribute('href'))?.slice('#/users/'.length) ?? ''), sent.distinct_id)
    await page.keyboard.press('Escape')
    // The URL changes after the dialog is hidden, and would overwrite the one of the next event.
    await page.waitForURL(/#\/live$/)
    await exact.waitFor({ state: 'hidden' })
  }
  t.equal(await page.title(), 'Live – Tallyhouse')
})
