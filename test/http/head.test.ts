import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { SECRET_KEY, settingsFor, startApp } from '../helper.js'

const { app, call } = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' })
const url = await app.listen({ port: 0 })

t.test('a HEAD has the headers of its GET, with the same length or none', async (t) => {
  const sent = await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
  await call('POST', '/public/users/identify', { distinct_id: 'u' })
  const paths = [
    ...['/health/live', '/health/ready', '/openapi.json', '/session', '/nothing', '/public/users/nobody'],
    ...['/public/events', '/public/events?format=csv', `/public/events/${sent.headers['x-event-id']}`],
    ...['/public/users', '/public/users/u', '/public/users/u/export', '/public/sessions', '/public/schema/events'],
    ...['/public/export', '/public/export?format=parquet', '/public/events/live'],
  ]
  for (const path of paths) {
    const headersOf = async (method: string) => {
      const stop = new AbortController()
      const response = await fetch(url + path, { method, headers: { 'x-api-key': SECRET_KEY }, signal: stop.signal })
      const { status, headers } = response
      stop.abort()
      return [status, headers.get('content-type'), headers.get('content-length')]
    }
    t.strictSame(await headersOf('HEAD'), await headersOf('GET'), path)
  }
})

t.test('a request with two Host headers is refused, even if they are equal', async (t) => {
  const { port } = new URL(url)
  const send = async (hosts: string) => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.end(`GET /health/live HTTP/1.1\r\n${hosts}connection: close\r\n\r\n`)
    return await text(socket)
  }
  t.match(await send('host: a\r\n'), /^HTTP\/1\.1 200 /)
  for (const hosts of ['host: a\r\nhost: b\r\n', 'Host: a\r\nHOST: a\r\n', 'host: a\r\naccept: *\r\nHost:\r\n']) {
    const response = await send(hosts)
    t.match(response, /^HTTP\/1\.1 400 /)
    t.match(response, /"code":"invalid_request"/)
    t.match(response, /two Host headers/)
  }
})
