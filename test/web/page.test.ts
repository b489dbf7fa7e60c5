import t from 'tap'
import { isUsable, startSite } from './page.js'

t.test('people sign in, and everyone can use what they see', async (t) => {
  const { visit, addKey } = await startSite(t)
  const page = await visit('#/users')
  await page.getByRole('heading', { name: 'Users' }).waitFor()
  await isUsable(t, page, 'the page')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key of the project').waitFor()
  await isUsable(t, page, 'the form')
  const reader = await visit('#/', await addKey('read', 'another project'))
  await reader.getByText('another project').first().waitFor()
})
