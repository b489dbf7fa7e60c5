import { once } from 'node:events'
import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { freePort, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { runCommand, startCommand } from './command-line.js'

const client = await startApp(t, await settingsFor(t, 'embedded'))
const url = await addressOf(client)
const env = { SECRET_KEY }

const isFollowed = (streams: number) =>
  until('the stream', async () => (await client.call('GET', '/metrics')).body.includes(`_live_streams ${streams}\n`))

t.test('tail prints events as they arrive, until Ctrl-C', async (t) => {
  const start = (...args: string[]) => {
    const child = startCommand(['tail', '--url', url, ...args], env)
    let output = ''
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    return { child, output: () => output, ended: once(child, 'close') }
  }
  const all = start()
  const short = start('--format', 'short', '--event', 'a\u001b[31m')
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
  await until('a line', () => short.output().endsWith('\n'))
  t.equal(short.output(), '1970-01-01T00:00:00.000Z  a [31m  ada  {"n":1}\n')
  const behind = start('--after', String(headers['x-event-id']))
  await until('two lines', () => behind.output() === texts.slice(1).join(''))
  for (const { child, ended } of [all, short, behind]) {
    child.kill('SIGINT')
    t.strictSame(await ended, [0, null])
  }
  await isFollowed(0)
})

t.test('tail and export warn of a name that no event has', async (t) => {
  const message = 'Warning: No event is called “purchasd”. Did you mean “purchased”?\n'
  await client.call('POST', '/public/track', { event: 'purchased', distinct_id: 'ada' })
  const exported = await runCommand(['export', '--url', url, '--event', 'purchasd'], '', env)
  t.match(exported, { code: 0, stdout: '', stderr: `0 events exported.\n${message}` })
  const child = startCommand(['tail', '--url', url, '--event', 'purchasd'], env)
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const ended = once(child, 'close')
  await until('the warning', () => stderr === message)
  child.kill('SIGINT')
  t.strictSame(await ended, [0, null])
})

t.test('tail explains what is wrong', async (t) => {
  const usage = await runCommand(['tail', '--format', 'csv'], '', env)
  t.equal(usage.code, 2)
  t.match(usage.stderr, /--format must be ndjson or short/)
  const after = await runCommand(['tail', '--after', 'x'], '', env)
  t.match(after.stderr, /--after must be the eventId/)
  const refused = await runCommand(['tail', '--url', url], '', { SECRET_KEY: 'sk_unknown_unknown' })
  t.equal(refused.code, 1)
  t.match(refused.stderr, /key is not known/)
  const nobody = `http://127.0.0.1:${await freePort()}`
  const unreachable = await runCommand(['tail', '--url', nobody], '', env)
  t.equal(unreachable.code, 1)
  t.match(unreachable.stderr, `cannot be reached at ${nobody}: nothing listens there`)
})
