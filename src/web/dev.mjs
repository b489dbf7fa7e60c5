// Development server of the page: bundles in memory with source maps and reloads the browser after each change. Other
// requests go to the service, which `npm run dev` starts as well.
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { context } from 'esbuild'
import { BUNDLE, SOURCE } from './bundle.mjs'

const HOST = '127.0.0.1'
const PARENT_CHECK_MS = 250
const { values } = parseArgs({
  options: {
    // Port of the service.
    target: { type: 'string', default: '3000' },
    // Port of the page; by default the next one, 0 for any free port.
    port: { type: 'string' },
    // Parent process; this one exits with it.
    parent: { type: 'string' },
  },
})
const { target, parent, port: ownPort = Number(target) + 1 } = values
if (target === '0') end('The page is not rebuilt, because with PORT=0 the port of the service is unknown.')

/** Runs in the browser. If only styles have changed, they are replaced without reloading the page. */
const RELOAD = `new EventSource('esbuild').addEventListener('change', ({ data }) => {
  const { added, removed, updated } = JSON.parse(data)
  const link = document.querySelector('link[rel=stylesheet]')
  const isOfStyles = added.length + removed.length === 0 && updated.every((path) => path.includes('.css'))
  if (isOfStyles) link.href = 'assets/main.css?' + Date.now()
  else location.reload()
})`

const bundle = await context({
  ...BUNDLE,
  outdir: join(SOURCE, 'assets'),
  sourcemap: 'linked',
  write: false,
})
await bundle.watch()
const built = await bundle.serve({ host: HOST, servedir: SOURCE })

const server = createServer((incoming, response) => {
  const { pathname } = new URL(incoming.url ?? '/', 'http://page')
  if (pathname === '/' && incoming.headers.accept?.includes('text/html')) {
    response.setHeader('content-type', 'text/html; charset=utf-8').end(html())
  } else if (pathname === '/reload.js') {
    response.setHeader('content-type', 'text/javascript').end(RELOAD)
  } else {
    forward(incoming, response, /^\/(assets\/|esbuild$)/.test(pathname) ? built.port : Number(target))
  }
})
server.listen(Number(ownPort), HOST, () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  console.log(`The page is rebuilt at each change: http://${HOST}:${port}`)
})
server.on('error', ({ message }) => end(`The page cannot be served: ${message}`))

if (parent) setInterval(() => process.ppid === Number(parent) || end(), PARENT_CHECK_MS)

function html() {
  return readFileSync(join(SOURCE, 'index.html'), 'utf8')
    .replace('styles.css', 'assets/main.css')
    .replace('main.tsx', 'assets/main.js')
    .replace('<script ', '<script src="reload.js" defer></script>\n    <script ')
}

/**
 * @param {import('node:http').IncomingMessage} incoming
 * @param {import('node:http').ServerResponse} response
 * @param {number} port
 */
function forward(incoming, response, port) {
  const { method, url, headers } = incoming
  const outgoing = request({ host: HOST, port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  // The service restarts after each change of its own code.
  outgoing.on('error', ({ message }) => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end(`The service does not answer: ${message}\n`)
  })
  response.on('close', () => outgoing.destroy())
  incoming.pipe(outgoing)
}

/** @param {string} [reason] */
function end(reason) {
  if (reason) console.error(reason)
  process.exit(reason ? 1 : 0)
}
