import { once } from 'node:events'
import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { freePort, until } from '../helper.js'
import { sharedApp } from '../shared-app.js'
import { followCommand, runCommand, startCommand } from './command-line.js'
import { projectOfCommands } from './project-of-commands.js'

const isFollowed = (streams: number) =>
  until('the stream', async () => {
    const { body } = await (await sharedApp()).call('GET', '/metrics')
    return body.includes(`_live_streams ${streams}\n`)
  })

t.test('tail prints events as they arrive, until Ctrl-C', async (t) => {
  const client = await projectOfCommands()
  const { url, env } = client
  const start = () => {
    const child = startCommand(['tail', '--url', url], env)
    let output = ''
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    return { child, output: () => output, ended: once(child, 'close') }
  }
  const all = start()
  const short = followCommand(['tail', '--url', url, '--format', 'short', '--event', 'a\u001b[31m'], env)
  await isFollowed(2)
  const { headers } = await client.call('POST', '/public/track', { event: 'b', distinct_id: 'ada' })
  await client.call('POST', '/public/track', {
    event: 'a\u001b[31m',
    distinct_id: 'ada',
    properties: { n: 1 },
    timestamp: 0,
  })
  await client.call('POST', '/public/track', '{"event":"c","distinct_id":"ada","properties":{\r\n "n": 1.0}}')
  await until('three lines', () => all.output().split('\n').length === 4)
  const { body } = await client.call('GET', '/public/events')
  const texts = elementTexts(memberText(body, 'events') ?? '[]').map((text) => `${text.replace(/\r?\n/g, ' ')}\n`)
  t.equal(all.output(), texts.join(''))
  await until('a line', () => short.printed.stdout.endsWith('\n'))
  t.equal(short.printed.stdout, '1970-01-01T00:00:00.000Z  a [31m  ada  {"n":1}\n')
  const behind = followCommand(['tail', '--url', url, '--after', String(headers['x-event-id'])], env)
  await until('two lines', () => behind.printed.stdout === texts.slice(1).join(''))
  all.child.kill('SIGINT')
  t.strictSame(await all.ended, [0, null])
  for (const { end } of [short, behind]) t.equal(await end(), 0)
  await isFollowed(0)
})

t.test('tail and export warn of a name that no event has', async (t) => {
  const client = await projectOfCommands()
  const message = 'Warning: No event is called “purchasd”. Did you mean “purchased”?\n'
  await client.call('POST', '/public/track', { event: 'purchased', distinct_id: 'ada' })
  const exported = await client.run(['export', '--event', 'purchasd'])
  t.match(exported, { code: 0, stdout: '', stderr: `0 events exported.\n${message}` })
  const { printed, end } = followCommand(['tail', '--url', client.url, '--event', 'purchasd'], client.env)
  await until('the warning', () => printed.stderr === message)
  t.equal(await end(), 0)
})

t.test('tail explains what is wrong', async (t) => {
  const { url } = await projectOfCommands()
  const usage = await runCommand(['tail', '--format', 'csv'])
  t.equal(usage.code, 2)
  t.match(usage.stderr, /--format must be ndjson or short/)
  const after = await runCommand(['tail', '--after', 'x'])
  t.match(after.stderr, /--after must be the eventId/)
  const refused = await runCommand(['tail', '--url', url], '', { SECRET_KEY: 'sk_unknown_unknown' })
  t.equal(refused.code, 1)
  t.match(refused.stderr, /key is not known/)
  const nobody = `http://127.0.0.1:${await freePort()}`
  const unreachable = await runCommand(['tail', '--url', nobody])
  t.equal(unreachable.code, 1)
  t.match(unreachable.stderr, `cannot be reached at ${nobody}: nothing listens there`)
})
