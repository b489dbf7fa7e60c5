import { once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { temporaryFolder } from '../../helper.js'
import { runCommand } from '../command-line.js'

t.test('of two imports of a file at once, one ends with a sentence', async (t) => {
  let stored = 0
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const isProbe = body === '{}'
    if (!isProbe) await wait(500)
    stored += isProbe ? 0 : 1
    response.statusCode = isProbe ? 400 : 200
    response.setHeader('content-type', 'application/json')
    response.end(isProbe ? '{"status":0,"error":"","code":"invalid_request"}' : '{"status":1,"accepted":1}')
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const folder = await temporaryFolder(t)
  const path = join(folder, 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u","properties":{}}\n')
  const run = () => runCommand(['import', '--url', url, path], '', { SECRET_KEY: `sk_${'x'.repeat(43)}` })
  const both = await Promise.all([run(), run()])
  const refused = both.find(({ code }) => code === 1)
  t.equal(refused?.stderr, `Another process is importing ${path}. Wait until it has ended.\n`)
  t.equal(stored, 1)
  t.strictSame(await readdir(folder), ['events.ndjson', 'events.ndjson.import.json'])
  t.equal((await run()).code, 0, 'the lock is released')
  t.equal(stored, 1)
})
