import t from 'tap'
import { checkAccessibility, startSite } from './page.js'

t.test('signing in and out is accessible', async (t) => {
  const { visit, addKey, key, url } = await startSite(t)
  const page = await visit(t, '#/users')
  await page.getByRole('heading', { name: 'Users' }).waitFor()
  await checkAccessibility(t, page, 'the page')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key of the project').waitFor()
  await checkAccessibility(t, page, 'the form')
  const reader = await visit(t, '#/', await addKey('read', 'another project'))
  await reader.getByText('another project').first().waitFor()
  // The name of a property that every object inherits.
  await page.goto(`${url}/#/constructor`)
  await page.getByLabel('Key of the project').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('link', { name: 'Boards', exact: true }).and(page.locator('[aria-current="page"]')).waitFor()
})
