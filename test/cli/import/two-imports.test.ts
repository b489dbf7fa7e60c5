import { once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { temporaryFolder } from '../../helper.js'
import { runCommand } from '../command-line.js'

/** The service's response about the key, before anything is sent. */
const KEY = '{"status":1,"error":null,"key":{"kind":"secret","project":"default"}}'

t.test('of two concurrent imports of a file, one ends with an explanation', async (t) => {
  let stored = 0
  let release = () => {}
  const isRefused = new Promise<void>((resolve) => {
    release = resolve
  })
  const server = createServer(async (request, response) => {
    await text(request)
    response.setHeader('content-type', 'application/json')
    if (request.method === 'GET') return response.end(KEY)
    stored++
    // The first import is kept running until the other one has ended.
    await isRefused
    return response.end('{"status":1,"accepted":1}')
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const folder = await temporaryFolder(t)
  const path = join(folder, 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u","properties":{}}\n')
  const run = () => runCommand(['import', '--url', url, path], '', { SECRET_KEY: `sk_${'x'.repeat(43)}` })
  const runs = [run(), run()]
  await Promise.race(runs)
  release()
  const both = await Promise.all(runs)
  const refused = both.find(({ code }) => code === 1)
  t.equal(refused?.stderr, `Another process is importing ${path}. Wait until it has finished.\n`)
  t.equal(stored, 1)
  t.strictSame(await readdir(folder), ['events.ndjson', 'events.ndjson.import.json'])
  t.equal((await run()).code, 0, 'the lock is released')
  t.equal(stored, 1)
})
