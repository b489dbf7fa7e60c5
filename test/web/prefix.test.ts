import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { openWindow, startSite } from './page.js'

const PREFIX = '/analytics'

/** Starts a proxy that serves the service under a prefix and something else at other paths. @returns its URL */
async function startProxy(t: Test, target: string): Promise<string> {
  const server = createServer((incoming, answer) => {
    const { url = '', method, headers } = incoming
    if (!url.startsWith(`${PREFIX}/`))
      return answer.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Shop</h1>')
    const outgoing = request(`${target}${url.slice(PREFIX.length)}`, { method, headers }, (response) => {
      response.pipe(answer.writeHead(response.statusCode ?? 500, response.headers))
    })
    outgoing.on('error', () => answer.destroy())
    answer.on('close', () => outgoing.destroy())
    incoming.pipe(outgoing)
  })
  server.listen(0)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://localhost:${(server.address() as AddressInfo).port}${PREFIX}`
}

t.test('the page works behind a proxy with a path prefix', async (t) => {
  const { url, call, key } = await startSite(t)
  const base = await startProxy(t, url)
  const page = await openWindow(t, new URL(base).origin)
  await page.goto(`${base}/#/live`)
  await page.getByLabel('Key of the project').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
  await page.getByRole('tab', { name: 'curl' }).click()
  t.match(await page.getByRole('region', { name: 'An event from curl' }).textContent(), `curl ${base}/public/track`)
  await page.getByRole('tab', { name: 'Node' }).click()
  t.match(
    await page.getByRole('region', { name: 'What to install' }).textContent(),
    `${base}/packages/tallyhouse-client.tgz`,
  )
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  await page.getByRole('link', { name: 'signed up' }).waitFor()
  for (const [view, content] of [
    ['Explore', page.getByRole('button', { name: 'Download CSV' })],
    ['Users', page.getByRole('link', { name: 'ada' })],
  ] as const) {
    await page.getByRole('link', { name: view, exact: true }).click()
    await content.first().waitFor()
  }
  await page.getByRole('link', { name: 'API reference' }).click()
  await page.getByText('/public/track', { exact: true }).first().waitFor()
})
