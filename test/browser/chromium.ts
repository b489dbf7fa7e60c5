import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type BrowserContext, chromium } from 'playwright-core'
import type { Test } from 'tap'
import { temporaryFolder, until } from '../helper.js'

/** As `test/ensure-tools.mjs` looks for it. */
const PROGRAMS = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--remote-debugging-port=0',
]

/**
 * A real browser with a profile of its own. Playwright only looks in: a browser that it starts
 * itself is set up so that every page counts as visible, and nothing goes into the back/forward
 * cache.
 */
export async function startChromium(t: Test): Promise<BrowserContext> {
  const program = PROGRAMS.find((name) => spawnSync(name, ['--version']).status === 0) ?? PROGRAMS[0] ?? ''
  const profile = await temporaryFolder(t)
  const child = spawn(program, [...ARGUMENTS, `--user-data-dir=${profile}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'exit')
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const endpoint = await until('Chromium', () => {
    if (child.exitCode !== null) throw new Error(`Chromium ended: ${output}`)
    return /DevTools listening on (\S+)/.exec(output)?.[1]
  })
  const browser = await chromium.connectOverCDP(endpoint, { noDefaults: true })
  t.teardown(() => browser.close())
  const [context] = browser.contexts()
  if (!context) throw new Error('the browser has no context')
  return context
}
