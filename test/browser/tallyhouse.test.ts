import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { Session } from '../../src/client/index.js'
import { type Client, freePort, PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { startChromium } from './chromium.js'

const SHIPPED = new URL('../../packages/browser/dist/esm/browser/index.js', import.meta.url)
const HEARTBEAT_MS = 40
/** Longer than any timer of a browser. */
const FOR_EVER_MS = 1e12

/**
 * A site with a different origin than the service. Each page starts a session with the options in its query, sends
 * its path as a property and an initial property, and keeps it as `session`.
 */
async function startSite(t: Test, service: string) {
  const script = await readFile(SHIPPED)
  const html = `<!doctype html><title>A page</title><a id="next" href="/next">next</a><script type="module">
    import { TallyhouseSession } from '/tallyhouse.js'
    window.failures = []
    addEventListener('pageshow', ({ persisted }) => persisted && session.setProperties({ fromCache: true }))
    try {
      window.session = new TallyhouseSession({
        url: ${JSON.stringify(service)},
        publicKey: ${JSON.stringify(PUBLIC_KEY)},
        distinct_id: 'ann',
        heartbeatMs: ${HEARTBEAT_MS},
        properties: { [location.pathname.slice(1)]: true },
        initialProperties: { began: location.pathname.slice(1) },
        onError: ({ code }) => failures.push(code),
        ...JSON.parse(new URLSearchParams(location.search).get('options') ?? '{}'),
      })
    } catch (error) {
      window.refused = error.message
    }
  </script>`
  const server = createServer(({ url = '' }, response) => {
    if (url === '/tallyhouse.js') {
      // For the page without an origin.
      response.writeHead(200, { 'content-type': 'text/javascript', 'access-control-allow-origin': '*' }).end(script)
      return
    }
    const headers = url.startsWith('/sandbox') ? { 'content-security-policy': 'sandbox allow-scripts' } : {}
    response.writeHead(200, { 'content-type': 'text/html', ...headers }).end(html)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return (path: string, options: object = {}) =>
    `${origin}/${path}?options=${encodeURIComponent(JSON.stringify(options))}`
}

/** The page's session, once it has one that is not `other`. */
const idOf = async (page: Page, other: string | null = null) =>
  await until('a session', async () => {
    const id = await page.evaluate<string | null>('window.session?.id ?? null')
    return id !== other && id
  })

/** There is none yet while the page is loading. */
const failuresOf = (page: Page) => page.evaluate<string[]>('window.failures ?? []')

function reader({ call }: Client) {
  const read = async (id: string): Promise<Session | null> =>
    (await call('GET', `/public/sessions/${id}`)).json().session ?? null
  /** the session, once it has the expected state */
  const when = async (id: string, what: string, isSo: (session: Session) => boolean) =>
    await until(what, async () => {
      const session = await read(id)
      return session && isSo(session) && session
    })
  const completed = (id: string) => when(id, 'the end', ({ state }) => state === 'completed')
  const active = (id: string, property: string) =>
    when(id, property, ({ state, properties }) => state === 'active' && properties[property] === true)
  return { read, when, completed, active }
}

// One storage is enough here: sessions are tested on each in test/routes/.
t.test('in a browser', async (t) => {
  const client = await startApp(t, await settingsFor(t, 'embedded'))
  const service = await client.app.listen({ port: 0 })
  const { read, when, completed, active } = reader(client)
  const site = await startSite(t, service)
  const browser = await startChromium(t)
  const open = async (t: Test, path: string, options: object = {}) => {
    const page = await browser.newPage()
    t.teardown(() => page.close())
    await page.goto(site(path, options))
    return page
  }

  t.test('a session starts with the page and sends heartbeats', async (t) => {
    const page = await open(t, 'first')
    const id = await idOf(page)
    const { started_at } = await active(id, 'first')
    const later = await when(id, 'heartbeats', ({ duration }) => duration >= (HEARTBEAT_MS * 3) / 1000)
    t.match(later, { distinct_id: 'ann', state: 'active', started_at, ended_at: null })
    await page.evaluate('session.setProperties({ more: true })')
    t.match(await active(id, 'more'), { properties: { first: true, more: true, began: 'first' } })
    await page.evaluate("session.setProperties({ began: 'elsewhere', set: true })")
    t.match(await active(id, 'set'), { properties: { began: 'elsewhere' } })
    await page.click('#next')
    t.match(await active(id, 'next'), { properties: { began: 'elsewhere' } }, 'they are sent once')
    t.strictSame(await failuresOf(page), [])
  })

  t.test('a hidden page sends nothing, and continues the session once it is visible again', async (t) => {
    const page = await open(t, 'hidden', { heartbeatMs: FOR_EVER_MS, timeoutMs: FOR_EVER_MS })
    const id = await idOf(page)
    const { duration } = await active(id, 'hidden')
    const other = await open(t, 'other')
    const last = await when(id, 'the beacon', (session) => session.duration > duration)
    const otherId = await idOf(other)
    await when(otherId, 'heartbeats', (session) => session.duration >= 0.2)
    t.strictSame(await when(id, 'the session', () => true), last, 'nothing came meanwhile')
    await page.bringToFront()
    await when(id, 'a heartbeat', (session) => session.updated_at > last.updated_at)
    t.equal(await idOf(page), id)
  })

  t.test('the session continues on the next page, and on the previous page from the cache', async (t) => {
    const page = await open(t, 'one')
    const id = await idOf(page)
    await active(id, 'one')
    await page.click('#next')
    t.match(await active(id, 'next'), { properties: { one: true, next: true, began: 'one' } })
    t.equal(await idOf(page), id)

    // Playwright loses a page that returns from the cache, so ask the service from here on.
    await page.evaluate('history.back()')
    await active(id, 'fromCache')
  })

  t.test("the session continues after a typed address, and after a script's reload", async (t) => {
    const page = await open(t, 'first')
    const id = await idOf(page)
    await active(id, 'first')
    await page.goto(site('typed'))
    await active(id, 'typed')
    t.equal(await idOf(page), id)
    await Promise.all([page.waitForEvent('load'), page.evaluate('location.reload()')])
    t.equal(await idOf(page), id)
    t.match(await active(id, 'typed'), { properties: { first: true }, ended_at: null })
  })

  t.test('closing the tab ends the session', async (t) => {
    const page = await open(t, 'closed')
    const id = await idOf(page)
    await when(id, 'heartbeats', ({ duration }) => duration > 0)
    await page.close()
    const { ended_at, updated_at, duration, started_at } = await completed(id)
    t.equal(ended_at, updated_at)
    t.ok(duration > 0 && duration <= (updated_at - started_at) / 1000 + 0.1, `${duration} s`)
  })

  t.test('after the reload button a new session starts, or with endOnClose: false the same continues', async (t) => {
    const page = await open(t, 'reloaded')
    const id = await idOf(page)
    await active(id, 'reloaded')
    await page.reload()
    await completed(id)
    await active(await idOf(page, id), 'reloaded')
    t.strictSame(await failuresOf(page), [])

    const patient = await open(t, 'reloaded', { endOnClose: false })
    const sameId = await idOf(patient)
    await active(sameId, 'reloaded')
    await patient.reload()
    t.equal(await idOf(patient), sameId)
    const { updated_at } = await active(sameId, 'reloaded')
    await when(sameId, 'a heartbeat', (session) => session.updated_at > updated_at)
    t.strictSame(await failuresOf(patient), [])
  })

  t.test('a page hidden for too long ends the session, and starts a new one once it is visible again', async (t) => {
    const page = await open(t, 'timeout', { timeoutMs: 500 })
    const id = await idOf(page)
    await active(id, 'timeout')
    await open(t, 'other')
    const { duration, started_at, ended_at } = await completed(id)
    t.ok(duration < (Number(ended_at) - started_at) / 1000, 'the time out of sight does not count')
    await page.bringToFront()
    // On a busy machine, that session may end before it is seen, and be followed by another.
    const next = await until('a new session', async () => {
      const session = await read(await idOf(page, id))
      return session?.state === 'active' && session.properties.timeout === true && session
    })
    t.match(next, { properties: { began: 'timeout' } })
  })

  t.test('a session that was ended elsewhere is followed by a new one', async (t) => {
    const page = await open(t, 'elsewhere')
    const id = await idOf(page)
    await active(id, 'elsewhere')
    await client.browser('/public/sessions/end', { distinct_id: 'ann', session_id: id })
    await active(await idOf(page, id), 'elsewhere')
    t.strictSame(await failuresOf(page), [])
  })

  t.test('end() ends the session', async (t) => {
    const page = await open(t, 'ended')
    const id = await idOf(page)
    await page.evaluate('session.end()')
    t.equal((await completed(id)).distinct_id, 'ann')
    t.equal(await page.evaluate('session.id'), null)
    await page.reload()
    await active(await idOf(page), 'ended')
  })

  t.test('properties that are set while a call is in flight are sent after it, and before the end', async (t) => {
    const page = await open(t, 'set', { heartbeatMs: 3_600_000 })
    const id = await idOf(page)
    await page.evaluate('session.setProperties({ one: true }), session.setProperties({ two: true })')
    t.match(await active(id, 'two'), { properties: { set: true, one: true } })
    await page.evaluate('session.setProperties({ three: true }), session.setProperties({ four: true }), session.end()')
    t.match((await completed(id)).properties, { three: true, four: true })
    t.strictSame(await failuresOf(page), [])
  })

  t.test('properties set on a hidden page are sent immediately, and its hidden time does not count', async (t) => {
    const page = await open(t, 'hidden', { heartbeatMs: 3_600_000 })
    const id = await idOf(page)
    const visible = await active(id, 'hidden')
    await open(t, 'other')
    const { duration } = await when(id, 'the beacon', (session) => session.duration > visible.duration)
    await page.evaluate('session.setProperties({ late: true })')
    t.equal((await active(id, 'late')).duration, duration)
  })

  t.test('properties may be as large as the service allows', async (t) => {
    const page = await open(t, 'large')
    const id = await idOf(page)
    await active(id, 'large')
    await page.evaluate("session.setProperties({ big: true, x: 'x'.repeat(65_430) })")
    await active(id, 'big')
    await page.evaluate("session.setProperties({ y: 'y'.repeat(65_430) })")
    await until('the refusal', async () => (await failuresOf(page)).length > 0)
    t.strictSame(await failuresOf(page), ['payload_too_large'])
  })

  t.test("another visitor's session is not continued", async (t) => {
    const page = await open(t, 'ann')
    const id = await idOf(page)
    await page.goto(site('bob', { distinct_id: 'bob' }))
    t.match(await active(await idOf(page, id), 'bob'), { distinct_id: 'bob' })
  })

  t.test('a session works on a page that may not use storage', async (t) => {
    const page = await open(t, 'sandbox')
    await active(await idOf(page), 'sandbox')
    t.strictSame(await failuresOf(page), [])
  })

  t.test('a mistake in the set-up is reported once', async (t) => {
    const page = await open(t, 'unknown', { publicKey: 'pk_unknown' })
    t.strictSame(await until('the failure', async () => (await failuresOf(page))[0] && failuresOf(page)), [
      'unauthorized',
    ])
    await page.addInitScript(`
      window.reports = 0
      const push = () => { reports++; throw new Error('a fault of the page') }
      Object.defineProperty(window, 'failures', { get: () => ({ push }), set() {} })`)
    await page.goto(site('throws', { publicKey: 'pk_unknown' }))
    await until('the report', async () => (await page.evaluate<number>('window.reports ?? 0')) > 0)
    await wait(5 * HEARTBEAT_MS)
    t.equal(await page.evaluate('reports'), 1, 'also if the page throws')
    await page.evaluate('session.end()')
    await page.goto(site('secret', { publicKey: SECRET_KEY }))
    t.match(await page.evaluate('refused'), /secret key, which must never be in a browser/)
    await page.goto(site('address', { url: 'tallyhouse' }))
    t.match(await page.evaluate('refused'), /url must be/)
  })
})

t.test('the page retries until an unavailable service is back', async (t) => {
  const client = await startApp(t, await settingsFor(t, 'embedded'))
  const port = await freePort()
  const site = await startSite(t, `http://127.0.0.1:${port}`)
  const browser = await startChromium(t)
  const page = await browser.newPage()
  await page.goto(site('away'))
  const id = await idOf(page)
  await until('a failure', async () => (await failuresOf(page)).includes('network'))
  await Promise.all([page.waitForURL('**/next'), page.click('#next')])
  await until('a failure', async () => (await failuresOf(page)).includes('network'))
  await client.app.listen({ port })
  const session = await reader(client).active(id, 'next')
  t.match(session, { properties: { began: 'away' } }, 'what no answer came to is sent by the next page')
})
