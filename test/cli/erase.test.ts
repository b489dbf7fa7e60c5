import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { command } from '../../src/cli/erase.js'
import { temporaryFolder } from '../helper.js'
import { projectOfCommands } from './project-of-commands.js'

t.test('tallyhouse erase', async (t) => {
  const client = await projectOfCommands()
  const { url } = client
  const SECRET_KEY = client.keys.secret

  async function run(args: string[], { input = '', env = { SECRET_KEY } as NodeJS.ProcessEnv } = {}) {
    const stdout = new PassThrough()
    const stderr = new PassThrough()
    const io = { env, stdin: Readable.from([Buffer.from(input)]), stdout, stderr, signal: new AbortController().signal }
    const code = await command.run(args, io)
    const all = (stream: PassThrough) => String((stream.read() as Buffer | null) ?? '')
    return { code, output: all(stdout), messages: all(stderr) }
  }

  async function seed(...users: string[]): Promise<void> {
    const events = users.map((distinct_id) => ({ event: 'e', distinct_id }))
    await client.call('POST', '/public/track/batch', { events })
    for (const distinct_id of users) await client.call('POST', '/public/users/identify', { distinct_id })
  }

  t.test('erase deletes users by name', async (t) => {
    await seed('ada', '-bob\u001b[31m', 'carl')
    const { code, output, messages } = await run([
      '--url',
      url,
      '--distinct-id',
      'ada',
      '--distinct-id=-bob\u001b[31m',
      '--distinct-id',
      'nobody',
    ])
    t.equal(
      output,
      'ada: profile, 1 event, 0 sessions\n-bob\uFFFD[31m: profile, 1 event, 0 sessions\nnobody: no such user\n',
    )
    t.match(messages, /^3 users, 1 of them unknown: 2 events, 0 sessions/)
    t.match(messages, /The data leaves the disks of ClickHouse by 20\d\d-\d\d-\d\dT\S+Z/)
    t.equal(code, 0)
    t.strictSame(
      (await client.events()).map(({ distinct_id }) => distinct_id),
      ['carl'],
    )
  })

  t.test('erase reads a list from a file or standard input, in several calls', async (t) => {
    const users = Array.from({ length: 110 }, (_, n) => `user "${n}" 😀`)
    await seed(...users)
    const file = join(await temporaryFolder(t), 'list')
    await writeFile(file, `\uFEFF${users.slice(0, 105).join('\r\n')}\r\n\r\n`)
    const first = await run(['--file', file, '--url', `${url}/`, '--json'])
    t.strictSame(
      first.output
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
      users
        .slice(0, 105)
        .map((distinct_id) => ({ distinct_id, profile: true, events: 1, sessions: 0, dead_letters: 0 })),
    )
    t.match(first.messages, /^105 users, 0 of them unknown: 105 events/)
    const second = await run(['--file', '-', '--url', url], { input: users.slice(105).join('\n') })
    t.match(second.messages, /^5 users/)
    t.strictSame(
      (await client.events()).map(({ distinct_id }) => distinct_id),
      ['carl'],
    )
  })

  t.test('a name in a list may contain anything but a line feed', async (t) => {
    const odd = ['eve\rann', 'eve\u2028ann', 'eve\u2029ann', 'eve\u0085ann', 'eve\vann']
    await seed('eve', 'ann', ...odd)
    const { output } = await run(['--file', '-', '--url', url, '--json'], { input: odd.join('\r\n') })
    t.strictSame(
      output.match(/"distinct_id":"[^"]*"/g),
      odd.map((name) => `"distinct_id":${JSON.stringify(name)}`),
    )
    t.strictSame((await client.events()).map(({ distinct_id }) => distinct_id).slice(-2), ['eve', 'ann'])
  })

  t.test('erase finds the service and its key like import and export', async (t) => {
    const keyFile = join(await temporaryFolder(t), 'key')
    await writeFile(keyFile, `${SECRET_KEY}\n`)
    const env = { PORT: new URL(url).port }
    const { code, output } = await run(['--distinct-id', 'nobody', '--key-file', keyFile], { env })
    t.match({ code, output }, { code: 0, output: 'nobody: no such user\n' })
  })

  t.test('erase explains what it refuses', async (t) => {
    const wrong: [args: string[], message: RegExp, env?: NodeJS.ProcessEnv][] = [
      [[], /--distinct-id ID, or --file/],
      [['--distinct-id', 'a', '--file', 'x'], /--distinct-id ID, or --file/],
      [['--distinct-id', 'a'], /SECRET_KEY/, {}],
      [['--nobody'], /nobody/],
      [['ada'], /ada/],
      [['--file', '-'], /no distinct_id/],
    ]
    for (const [args, message, env] of wrong) {
      await t.rejects(run(args, { ...(env && { env }) }), { name: 'UsageError', message }, args.join(' '))
    }
    await t.rejects(run(['--distinct-id', 'a', '--url', url], { env: { SECRET_KEY: 'sk_of_another_service' } }), {
      message: /refuses the key/,
    })
    await t.rejects(run(['--distinct-id', 'a', '--url', url], { env: { SECRET_KEY: `${SECRET_KEY}\n` } }), {
      name: 'UsageError',
      message: /key has a character that no key can have/,
    })
    await t.rejects(run(['--distinct-id', 'a', '--url', `${url}/public`]), {
      message: `but not under that path. Leave out the path: ${url}.`,
    })
    await t.rejects(run(['--distinct-id', '', '--url', url]), { code: 'invalid_request' })
    await t.rejects(run(['--file', '/does/not/exist', '--url', url]), { code: 'ENOENT' })
  })
})
