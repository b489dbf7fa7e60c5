import { spawn } from 'node:child_process'
import t from 'tap'
import { until } from '../helper.js'
import { startSite } from './page.js'

t.test('the development server serves source maps and changes, and forwards calls to the service', async (t) => {
  const site = await startSite(t)
  const target = new URL(site.url).port
  const dev = spawn('node', ['src/web/dev.mjs', `--target=${target}`, '--port=0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => dev.kill('SIGKILL'))
  let output = ''
  dev.stdout.on('data', (chunk) => {
    output += chunk
  })
  const url = await until('the page', () => /at each change: (\S+)/.exec(output)?.[1])

  const page = await (await fetch(url, { headers: { accept: 'text/html' } })).text()
  for (const [, path = ''] of page.matchAll(/(?:src|href)="((?:assets\/|reload)[^"]+)"/g)) {
    const { status } = await fetch(`${url}/${path}`)
    t.equal(status, 200, path)
  }
  const script = await (await fetch(`${url}/assets/main.js`)).text()
  t.match(script, /\/\/# sourceMappingURL=main\.js\.map/)
  const { sources } = (await (await fetch(`${url}/assets/main.js.map`)).json()) as { sources: string[] }
  t.ok(sources.some((name) => name.endsWith('main.tsx')))

  const changes = new AbortController()
  const stream = await fetch(`${url}/esbuild`, {
    headers: { accept: 'text/event-stream' },
    signal: changes.signal,
  })
  t.match(stream.headers.get('content-type'), /text\/event-stream/)
  changes.abort()

  const events = await fetch(`${url}/public/events`, { headers: { 'x-api-key': site.key } })
  t.match(await events.json(), { status: 1, events: [] })
})
