import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { runCommand } from '../cli/command-line.js'
import { SECRET_KEY, settingsFor, startApp, temporaryFolder } from '../helper.js'
import { addressOf } from '../live-stream.js'

const run = promisify(execFile)
const MANUAL = 'docs/questions.md'
/** A command and what it prints. */
const EXAMPLE = /^```console\n\$ npx tallyhouse (.*)\n([\s\S]*?)^```$/gm

const client = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'on' })
const url = await addressOf(client)
const { port } = new URL(url)
const env = { SECRET_KEY, HOST: '127.0.0.1', PORT: port }

t.test('the demo sends as many events as it says', async (t) => {
  const keyFile = join(await temporaryFolder(t), 'key')
  await writeFile(keyFile, `${SECRET_KEY}\n`)
  const [, args = ''] = /^npx tallyhouse (demo .*)$/m.exec(await readFile(MANUAL, 'utf8')) ?? []
  const filled = await runCommand([...args.split(' '), '--url', url, '--key-file', keyFile], '', {})
  t.match(filled, { code: 0, stdout: '', stderr: /20 000 events sent\.\n$/ })
  const question = { kind: 'series', series: [{ event: '*' }], interval: 'none', from: '2024-01-01', to: '2025-01-02' }
  t.equal((await client.call('POST', '/public/query', question)).json().results[0].total, 20_000)
})

t.test('the questions of the manual have the answers of the manual', async (t) => {
  const manual = await readFile(MANUAL, 'utf8')
  const examples = [...manual.matchAll(EXAMPLE)]
  t.equal(examples.length, 15)
  for (const [, command = '', answer] of examples) {
    // The shell splits the command into its arguments.
    const { stdout: args } = await run('bash', ['-c', `printf '%s\\0' ${command}`])
    t.equal((await runCommand(args.split('\0').slice(0, -1), '', env)).stdout, answer, command)
  }
})

t.test('a demo that was removed leaves nothing, and the next one starts from scratch', async (t) => {
  const fill = ['demo', '--events', '500', '--until', '2025-01-01', '--url', url]
  const settings = { ...env, DATA_DIR: client.config.DATA_DIR }
  const found = async (key = '') => {
    const question = {
      kind: 'series',
      series: [{ event: '*' }],
      interval: 'none',
      from: '2024-01-01',
      to: '2025-01-02',
    }
    const headers = { 'x-api-key': key }
    const answers = await Promise.all([
      client.call('POST', '/public/query', question, headers),
      client.call('GET', '/public/users?limit=1000', undefined, headers),
    ])
    const [series, users] = answers.map((answer) => answer.json())
    return { events: series.results[0].total, users: users.users.length }
  }
  const keyOf = ({ stdout }: { stdout: string }) => /^SECRET_KEY=(\S+)$/m.exec(stdout)?.[1]
  const first = await runCommand(fill, '', settings)
  t.match(first, { code: 0, stderr: /500 events sent/ })
  t.match(first.stderr, `open ${url}/ and sign in with the secret key`)
  const before = await found(keyOf(first))
  t.equal(before.events, 500)
  const again = await runCommand(fill, '', settings)
  t.equal(again.code, 0)
  t.strictSame(await found(keyOf(again)), before, 'the same once more')
  const keyFile = join(await temporaryFolder(t), 'key')
  await writeFile(keyFile, keyOf(first) ?? '')
  const added = await runCommand([...fill, '--key-file', keyFile], '', {})
  t.match(added, { code: 1, stderr: /Run the command without --key-file/ })
  const removed = await runCommand(['demo', '--remove', '--url', url], '', settings)
  t.match(removed, {
    code: 0,
    stdout: '',
    // The hourly purge may be running.
    stderr: /500 events, \d+ profiles[\s\S]*(leaves the disks of ClickHouse by 20|is rewriting its tables)/,
  })
  const keys = await runCommand(['keys', 'list', '--project', 'demo', '--json'], '', settings)
  const records = keys.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.equal(records.length, 5)
  t.ok(records.every(({ revokedAt }) => revokedAt !== null))
  t.strictSame(await found(keyOf(await runCommand(fill, '', settings))), before, 'as new')
})

t.test('errors say what is wrong', async (t) => {
  const [events, until, remove] = await Promise.all([
    runCommand(['demo', '--events', 'many'], '', {}),
    runCommand(['demo', '--until', 'today'], '', {}),
    runCommand(['demo', '--remove', '--key-file', 'key'], '', {}),
  ])
  t.match(events, { code: 2, stderr: /--events must be a whole number/ })
  t.match(until, { code: 2, stderr: /--until must be milliseconds since 1970, or a time such as/ })
  t.match(remove, { code: 2, stderr: /--remove removes the project "demo" only/ })
})
