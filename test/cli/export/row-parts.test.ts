import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { startCommand } from '../command-line.js'

const ROW = `{"eventId":"0198c0de-0000-7000-8000-000000000000","event":"a","properties":"${'x'.repeat(10_000)}"}\n`

t.test('Ctrl-C ends an export whose reader has stalled', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/public/key') {
      response.setHeader('content-type', 'application/json')
      response.end('{"status":1,"error":null,"key":{"kind":"secret","project":"default"}}')
      return
    }
    response.setHeader('x-next-cursor', 'next')
    response.setHeader('x-has-more', 'false')
    response.setHeader('x-pending', '0')
    response.end(ROW.repeat(1000))
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo

  const child = startCommand(['export', '--url', `http://127.0.0.1:${port}`], { SECRET_KEY: `sk_${'x'.repeat(43)}` })
  t.teardown(() => child.kill('SIGKILL'))
  const { stdout, stderr } = child
  if (!stdout || !stderr) throw new Error('no pipes')
  const messages = text(stderr)
  await once(stdout, 'readable')
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  t.strictSame(await exited, [1, null])
  t.match(await messages, /Interrupted\.\n$/)
  stdout.destroy()
})
