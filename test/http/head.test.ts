import t from 'tap'
import { SECRET_KEY, settingsFor, startApp } from '../helper.js'

t.test('the headers of a HEAD are those of the GET: the same length, or none', async (t) => {
  const { app, call } = await startApp(t, await settingsFor(t, 'embedded'))
  const sent = await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
  await call('POST', '/public/users/identify', { distinct_id: 'u' })
  const url = await app.listen({ port: 0 })
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
