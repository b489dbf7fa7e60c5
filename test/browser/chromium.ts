import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { BrowserContext, ConnectOverCDPTransport } from 'playwright-core'
import type { Test } from 'tap'
import { temporaryFolder, WAIT_LIMIT_MS } from '../helper.js'

// Required rather than imported: an import scans its 3 MB for CommonJS exports, which costs 170 ms of CPU time.
const { chromium } = createRequire(import.meta.url)('playwright-core') as typeof import('playwright-core')

/** The same candidates as in `test/ensure-tools.mjs`. */
const PROGRAMS = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/**
 * Chromium without the windows around its pages, which take half of its CPU time. Debian has it as a package. The script
 * on PATH waits for this program, which a signal to the script would leave running.
 */
const SHELLS = ['/usr/lib/chromium/chromium-headless-shell']

const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // The lists below the address bar are separate pages. Loading them took three quarters of a new window's CPU time.
  // A spare process for the next page would never be used.
  '--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess',
  '--disable-extensions',
  '--disable-component-extensions-with-background-pages',
  // Frames of animations are drawn for nobody.
  '--force-prefers-reduced-motion',
  // It only combines what others have drawn.
  '--in-process-gpu',
  // A page in the background would get no CPU time on a busy machine.
  '--disable-renderer-backgrounding',
  // One process renders all pages, so their code is compiled once.
  '--renderer-process-limit=1',
  '--process-per-site',
  '--disable-site-isolation-trials',
  // Most code of a page runs a few times: the first compiler costs less than the interpreter.
  '--js-flags=--always-sparkplug',
]

/**
 * A real browser with its own profile. Playwright only connects to it, because a browser that Playwright starts
 * treats every page as visible and has no back/forward cache. It is killed at the end, because closing it would wait
 * for an orderly exit that may never come.
 */
export function startChromium(t: Test): Promise<BrowserContext> {
  return connect(t, chromiumProgram())
}

/** A browser for which every page is visible, and that has no back/forward cache, if it is installed. */
export function startShell(t: Test): Promise<BrowserContext> | undefined {
  const shell = findProgram(SHELLS)
  return shell === undefined ? undefined : connect(t, shell)
}

async function connect(t: Test, program: string): Promise<BrowserContext> {
  const { child, ended, output } = await launch(t, program, 'about:blank', ['--remote-debugging-pipe'])
  const [, , , commands, answers] = child.stdio
  const pipes = transport(commands as Writable, answers as Readable)
  const browser = await Promise.race([
    chromium.connectOverCDP(pipes, { noDefaults: true, timeout: WAIT_LIMIT_MS }),
    ended.then(() => {
      throw new Error(`Chromium ended: ${output()}`)
    }),
  ])
  const [context] = browser.contexts()
  if (!context) throw new Error('the browser has no context')
  context.setDefaultTimeout(WAIT_LIMIT_MS)
  return context
}

/** Opens a page that nothing controls but its own script: DevTools turn prerendering off. */
export async function openAlone(t: Test, address: string): Promise<void> {
  await launch(t, chromiumProgram(), address, [])
}

async function launch(t: Test, program: string, address: string, options: string[]) {
  const profile = await temporaryFolder(t)
  const child = spawn(program, [...ARGUMENTS, ...options, `--user-data-dir=${profile}`, address], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
  })
  const ended = once(child, 'exit')
  let output = ''
  child.stderr?.on('data', (chunk) => {
    output += chunk
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended, output: () => output }
}

/** If none is installed, a missing one, so that the error names it. */
const chromiumProgram = () => findProgram(PROGRAMS) ?? 'chromium'

/** The first one installed. Asking for its version would start it. */
function findProgram(programs: string[]): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const isInstalled = (name: string) =>
    folders.some((folder) => {
      try {
        accessSync(resolve(folder, name), constants.X_OK)
        return true
      } catch {
        return false
      }
    })
  return programs.find(isInstalled)
}

/** Exchanges DevTools messages through pipes, each followed by a zero. A WebSocket would compress every message. */
function transport(commands: Writable, answers: Readable): ConnectOverCDPTransport {
  const channel: ConnectOverCDPTransport = {
    send: (message) => commands.write(`${JSON.stringify(message)}\0`),
    close: () => commands.destroy(),
  }
  let rest = ''
  answers.setEncoding('utf8').on('data', (chunk: string) => {
    const texts = (rest + chunk).split('\0')
    rest = texts.pop() ?? ''
    for (const text of texts) channel.onmessage?.(JSON.parse(text))
  })
  answers.once('close', () => channel.onclose?.())
  // It ended.
  commands.on('error', () => {})
  return channel
}
