import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
let text = ''
import { runCommand } from '../cli/command-line.js'
import { SECRET_KEY, settingsFor, startApp, temporaryFolder } from '../helper.js'
import { addressOf } from '../live-stream.js'

const run = promisify(execFile)
const MANUAL = 'docs/questions.md'
/** A command and what it prints. */
const EXAMPLE = /^```console\n\$ npx tallyhouse (.*)\n([\s\S]*?)^```$/gm

const client = await startApp(t, await settingsFor(t, 'embedded'))
const url = await addressOf(client)
const { port } = new URL(url)
const env = { PATH: process.env.PATH, SECRET_KEY, HOST: '127.0.0.1', PORT: port }

t.test('the demo sends as many events as it says, and again the same ones', async (t) => {
  const keyFile = join(await temporaryFolder(t), 'key')
  await writeFile(keyFile, `${SECRET_KEY}\n`)
  const [, args = ''] = /^npx tallyhouse (demo .*)$/m.exec(await readFile(MANUAL, 'utf8')) ?? []
  const fill = () => runCommand([...args.split(' '), '--url', url, '--key-file', keyFile], '', {})
  const first = await fill()
  t.match(first, { code: 0, stdout: '', stderr: /20 000 events sent\.\n$/ })
  const second = await fill()
  t.equal(second.code, 0)
  const question = { kind: 'series', series: [{ event: '*' }], interval: 'none', from: '2024-01-01', to: '2025-01-02' }
  t.equal((await client.call('POST', '/public/query', question)).json().results[0].total, 20_000)
})


t.test('regenerate', async (t) => {
  text = await readFile(MANUAL, 'utf8')
  for (const [whole, command = ''] of [...text.matchAll(EXAMPLE)]) {
    const { stdout, stderr } = await run('bash', ['-c', `"${process.execPath}" dist/cli.js ${command}`], { env })
    if (stderr) console.error(command, stderr)
    text = text.replace(whole, () => '```console\n$ npx tallyhouse ' + command + '\n' + stdout + '```')
  }
  await writeFile(MANUAL, text)
  t.pass()
})
