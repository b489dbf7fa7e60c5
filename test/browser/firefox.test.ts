import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { settingsFor, startApp, temporaryFolder, until } from '../helper.js'

/** Playwright needs a Firefox of its own, so the page drives itself. */
const PROGRAM = ['firefox-esr', 'firefox'].find((name) => spawnSync(name, ['--version']).status === 0)

const FIRST = `
  const wait = (ms) => new Promise((done) => setTimeout(done, ms))
  onload = async () => {
    await wait(500)
    history.pushState({}, '', '/routed')
    tallyhouse.track('bought', { price: 3 })
    document.querySelector('button').click()
    await wait(500)
    addEventListener('pageshow', async ({ persisted }) => {
      tallyhouse.track('back', { persisted })
      await wait(500)
      await fetch('/done')
    })
    location.href = '/second'
  }`
const SECOND = `onload = () => setTimeout(() => history.back(), 1000)`

t.test('the script works in Firefox', { skip: PROGRAM ? false : 'Firefox is not installed' }, async (t) => {
  const env: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const client = await startApp(t, env)
  const url = await client.app.listen({ port: Number(env.PORT) })
  const { apiKey } = (await client.call('POST', '/public/keys', { kind: 'write' })).json()
  let isDone = false
  const site = createServer(({ url: path }, response) => {
    if (path === '/done') isDone = true
    response.setHeader('content-type', 'text/html')
    response.end(`<!doctype html><title>A page</title><script defer src="${url}/t.js" data-key="${apiKey}"></script>
      <button data-event="pressed">press</button><script>${path === '/second' ? SECOND : FIRST}</script>`)
  }).listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.teardown(() => site.close().closeAllConnections())
  const address = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
  const profile = await temporaryFolder(t)
  const args = ['--headless', '--no-remote', '--profile', profile, `${address}/first?utm_source=letter`]
  const browser = spawn(PROGRAM ?? '', args, { stdio: 'ignore' })
  const ended = once(browser, 'exit')
  t.teardown(async () => {
    browser.kill('SIGKILL')
    await ended
  })
  const events = await until('Firefox has sent all', async () => {
    const { events } = (await client.call('GET', '/public/events?limit=100')).json()
    return isDone && events.some(({ event }: { event: string }) => event === 'back') && events
  })
  const seen = events.map((event: { event: string; properties: { url?: string } }) => {
    return [event.event, event.properties.url?.slice(address.length)].join(' ').trim()
  })
  t.strictSame(seen.toSorted(), [
    '$pageview /first?utm_source=letter',
    '$pageview /routed',
    '$pageview /routed',
    '$pageview /second',
    'back',
    'bought',
    'pressed',
  ])
  t.match(
    events.find(({ event }: { event: string }) => event === 'back'),
    { properties: { persisted: true }, context: { browser: 'Firefox' } },
  )
  t.equal(new Set(events.map((event: { session_id: string }) => event.session_id)).size, 1, 'one visit')
})
