// Uses the packages that are installed in a folder, with the Node.js that runs this script: starts the service there with its
// embedded engines and no Redis; sends events as text and with the client, reads and asks; bundles the browser's
// package; stops the service. Fails if a native module does not load or data comes out altered.
import { strict as assert } from 'node:assert'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { build } from 'esbuild'

const SECRET_KEY = 'sk_of_the_short_run'
const START_LIMIT_MS = 60_000
const END_LIMIT_MS = 10_000
const PROPERTIES = '{"n":1.0,"big":123456789012345678901234567890,"text":"\\u00e9"}'

const [, , folder = '.'] = process.argv
const { PATH, HOME } = process.env
const service = spawn('npx', ['tallyhouse', 'serve'], {
  cwd: folder,
  env: { PATH, HOME, PORT: '0', SECRET_KEY, LOG_LEVEL: 'warn' },
  stdio: ['ignore', 'pipe', 'pipe'],
})
let output = ''
try {
  const url = await addressOf(service)
  await sendAndRead(url)
  runClient(url, 'client.mjs', `import { Tallyhouse } from 'tallyhouse-client'`)
  runClient(url, 'client.cjs', `const { Tallyhouse } = require('tallyhouse-client')`)
  await bundle('esm', `import { Tallyhouse } from 'tallyhouse-browser'; globalThis.Tallyhouse = Tallyhouse`)
  await bundle('iife', `globalThis.Tallyhouse = require('tallyhouse-browser').Tallyhouse`)

  const ended = once(service, 'exit')
  service.kill('SIGTERM')
  await ended
  await untilEnded(url)
  // Nothing that a user would take for a fault.
  assert.doesNotMatch(output, /Warning|"level":[4-6]0/)
  const node = execFileSync('node', ['--version'], { encoding: 'utf8', cwd: folder }).trim()
  console.log(`Node.js ${node}: the service, the client and the browser's package work.`)
} catch (error) {
  console.error(output)
  throw error
} finally {
  service.kill('SIGKILL')
}

/** @param {string} url */
async function sendAndRead(url) {
  const sent = Array.from({ length: 100 }, (_, i) => `{"event":"e${i}","distinct_id":"u","properties":${PROPERTIES}}`)
  await call(`${url}/public/track/batch`, { method: 'POST', body: `{"events":[${sent.join()}]}` })
  const text = await call(`${url}/public/events?limit=1000`)
  const names = JSON.parse(text).events.map(({ event }) => event)
  assert.deepEqual(
    names,
    sent.map((_, i) => `e${i}`),
  )
  assert.equal(text.split(PROPERTIES).length - 1, sent.length, 'properties come out byte for byte')
  await call(`${url}/public/users/identify`, { method: 'POST', body: '{"distinct_id":"u","properties":{"a":1}}' })
  assert.match(await call(`${url}/public/users/u`), /"properties":\{"a":1\}/)
  // Each needs a file of the package that is not a module.
  for (const path of ['/', '/docs/', '/t.js', '/packages/tallyhouse-client.tgz', '/packages/tallyhouse-browser.tgz'])
    assert.equal((await fetch(url + path, { headers: { accept: 'text/html' } })).status, 200, path)
}

/**
 * @param {string} url
 * @param {string} file whose name says what kind of module it is
 * @param {string} load
 */
function runClient(url, file, load) {
  const path = join(folder, file)
  writeFileSync(
    path,
    `${load}
    const run = async () => {
      const tallyhouse = new Tallyhouse({ url: '${url}', secretKey: '${SECRET_KEY}' })
      await tallyhouse.track({ event: '${file}', distinct_id: 'ada', properties: { plan: 'pro' } })
      await tallyhouse.identify('ada', { name: 'Ada' })
      const { results } = await tallyhouse.query({
        kind: 'series', series: [{ event: '${file}', metric: 'users' }], interval: 'none', from: '2020-01-01',
      })
      for await (const { event } of tallyhouse.exportEvents({ event: '${file}' })) console.log(event, results[0].total)
      await tallyhouse.close()
    }
    run()`,
  )
  assert.equal(execFileSync('node', [path], { encoding: 'utf8' }), `${file} 1\n`)
}

/**
 * @param {'esm' | 'iife'} format
 * @param {string} contents
 */
async function bundle(format, contents) {
  const { outputFiles, warnings } = await build({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    minify: true,
    write: false,
    format,
    platform: 'browser',
    logLevel: 'silent',
  })
  assert.deepEqual(warnings, [])
  const [{ text } = { text: '' }] = outputFiles
  assert.ok(text.length > 2_000 && text.length < 12_000, `${format}: ${text.length} bytes`)
  // Another service than a page's has no window, which the package names.
  const run = `${text};try { new Tallyhouse({ url: 'x', key: 'y' }) } catch ({ message }) { console.log(message) }`
  const file = join(folder, `bundle.${format === 'esm' ? 'mjs' : 'cjs'}`)
  writeFileSync(file, run)
  assert.match(execFileSync('node', [file], { encoding: 'utf8' }), /^A page needs a write key: /)
}

/** @param {import('node:child_process').ChildProcessByStdio<null, import('node:stream').Readable, import('node:stream').Readable>} child */
function addressOf(child) {
  return new Promise((resolve, reject) => {
    const fail = (/** @type {string} */ reason) => reject(new Error(reason))
    const timer = setTimeout(fail, START_LIMIT_MS, `the service did not listen within ${START_LIMIT_MS} ms`)
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.stdout.on('data', (chunk) => {
      output += chunk
      const [, url] = /Tallyhouse serves at (\S+)/.exec(output) ?? []
      if (!url) return
      clearTimeout(timer)
      resolve(url)
    })
    child.stdout.on('end', () => {
      clearTimeout(timer)
      fail('the service ended')
    })
  })
}

/**
 * The service notices that the command has ended, and then ends by itself.
 * @param {string} url
 */
async function untilEnded(url) {
  for (const giveUpAt = performance.now() + END_LIMIT_MS; performance.now() < giveUpAt; await wait(100)) {
    const isUp = await fetch(url).then(
      () => true,
      () => false,
    )
    if (!isUp) return
  }
  assert.fail('the service is still there after the command has ended')
}

/**
 * @param {string} url
 * @param {RequestInit} init
 */
async function call(url, init = {}) {
  const response = await fetch(url, {
    ...init,
    headers: { 'x-api-key': SECRET_KEY, ...(init.body && { 'content-type': 'application/json' }) },
  })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return text
}
