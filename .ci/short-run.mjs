// Starts the built service with its embedded engines in an empty folder, under the Node.js that runs this script; sends
// events, reads them back, and stops it. Fails if a native module does not load or data comes out altered.
import { strict as assert } from 'node:assert'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SECRET_KEY = 'sk_of_the_short_run'
const START_LIMIT_MS = 60_000

const folder = await mkdtemp(join(tmpdir(), 'tallyhouse-short-'))
const service = spawn(process.execPath, [fileURLToPath(new URL('../dist/main.js', import.meta.url))], {
  env: { PATH: process.env.PATH, PORT: '0', DATA_DIR: folder, SECRET_KEY, LOG_LEVEL: 'warn' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
try {
  const url = await addressOf(service)
  const properties = '{"n":1.0,"big":123456789012345678901234567890,"text":"\\u00e9"}'
  const sent = Array.from({ length: 100 }, (_, i) => `{"event":"e${i}","distinct_id":"u","properties":${properties}}`)
  await call(`${url}/public/track/batch`, { method: 'POST', body: `{"events":[${sent.join()}]}` })
  const text = await call(`${url}/public/events?limit=1000`)
  const names = JSON.parse(text).events.map(({ event }) => event)
  assert.deepEqual(
    names,
    sent.map((_, i) => `e${i}`),
  )
  assert.equal(text.split(properties).length - 1, sent.length, 'properties come out byte for byte')
  await call(`${url}/public/users/identify`, { method: 'POST', body: '{"distinct_id":"u","properties":{"a":1}}' })
  assert.match(await call(`${url}/public/users/u`), /"properties":\{"a":1\}/)
  // The dependencies that once needed more than the oldest Node.js were those of this page.
  assert.equal((await fetch(`${url}/docs/`)).status, 200)

  service.kill('SIGTERM')
  const [code] = await once(service, 'exit')
  assert.equal(code, 0)
  console.log(`Node.js ${process.version}: started, ${sent.length} events in and out, stopped.`)
} finally {
  service.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}

function addressOf({ stdout }) {
  return new Promise((resolve, reject) => {
    let output = ''
    const timer = setTimeout(
      () => reject(new Error(`the service did not listen within ${START_LIMIT_MS} ms: ${output}`)),
      START_LIMIT_MS,
    )
    stdout.on('data', (chunk) => {
      output += chunk
      const [, url] = /Tallyhouse serves at (\S+)/.exec(output) ?? []
      if (!url) return
      clearTimeout(timer)
      resolve(url)
    })
    stdout.on('end', () => {
      clearTimeout(timer)
      reject(new Error(`the service ended: ${output}`))
    })
  })
}

async function call(url, init = {}) {
  const response = await fetch(url, {
    ...init,
    headers: { 'x-api-key': SECRET_KEY, ...(init.body && { 'content-type': 'application/json' }) },
  })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return text
}
