import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, constants, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { CLI, temporaryFolder } from '../helper.js'
import { NO_FULL_DISK, runCommand, runOnFullDisk, runProcess, startCommand } from './command-line.js'
import { projectOfCommands } from './project-of-commands.js'

t.test('npx runs it where it was built', () => access(join(process.cwd(), 'dist/cli.js'), constants.X_OK))

t.test('it prints its version', async (t) => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  const answer = { code: 0, stdout: `tallyhouse ${version}\n`, stderr: '' }
  t.strictSame(await runProcess(['--version']), answer)
  for (const name of ['-v', 'version']) t.strictSame(await runCommand([name]), answer)
})

t.test('the first line says what is wrong with the arguments, and the second one points to the help', async (t) => {
  const wrong: [string[], RegExp][] = [
    [['keys', 'make'], /^Specify an action/],
    [['import', '--colour'], /^There is no option --colour\.$/],
    [['export', '--fromat=csv'], /^There is no option --fromat\. Did you mean --format\?$/],
    [['export', '--all', 'x', '--format', 'csv'], /--all FOLDER takes no other option\.$/],
    [['serve', '--port=4000'], /^serve takes no arguments, but got --port=4000\. Set the variables/],
    [['import', '--state', 'x.json'], /^An import from standard input cannot be resumed, so --state needs a FILE\.$/],
    [['import', '--rejects', './package.json', 'package.json'], /^\.\/package\.json is the input, and would be over/],
    [['exprot'], /^There is no command "exprot"\. Did you mean export\? For all commands: tallyhouse --help$/],
  ]
  for (const [i, [args, message]] of wrong.entries()) {
    const { code, stdout, stderr } = await (i === 0 ? runProcess : runCommand)(args)
    t.strictSame([code, stdout], [2, ''])
    const [first, ...more] = stderr.trimEnd().split('\n')
    t.match(first, message)
    t.strictSame(more, args[0] === 'exprot' ? [] : [`For all options: tallyhouse ${args[0]} --help`])
  }
})

t.test('the reader of the output or of the messages may close it', async (t) => {
  const run = async (args: string[], leave: 'stdout' | 'stderr') => {
    const child = startCommand(args)
    let text = ''
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => (text += data))
    child[leave]?.destroy()
    const [code] = await once(child, 'close')
    return [code, text]
  }
  t.strictSame(await run(['--help'], 'stdout'), [1, ''], 'no stack trace')
  t.strictSame(await run(['no-command'], 'stderr'), [2, ''])
})

t.test('every command says that the disk of its output is full, once', { skip: NO_FULL_DISK }, async (t) => {
  const { url, env, call } = await projectOfCommands()
  const { headers } = await call('POST', '/public/track', { event: 'a', distinct_id: 'ada' })
  await call('POST', '/public/track', { event: 'b', distinct_id: 'ada' })
  await call('GET', '/public/events')
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
  const commands = [
    ['--help'],
    ['query', '--event', 'a', '--url', url],
    ['export', '--url', url],
    ['tail', '--after', String(headers['x-event-id']), '--url', url],
    ['mcp', '--url', url],
  ]
  for (const args of commands) {
    const { code, stderr } = await runOnFullDisk(args, env, args[0] === 'mcp' ? ping : '')
    t.strictSame([code, stderr], [1, 'The output cannot be written: The disk of the file is full.\n'], String(args[0]))
  }
})

t.test('output of which the disk takes only a part is no success', { skip: NO_FULL_DISK }, async (t) => {
  const file = join(await temporaryFolder(t), 'help')
  // The limit acts like a disk with 512 bytes left: the first write is shortened, and only the next one fails.
  const script = `trap '' XFSZ; ulimit -f 1; exec "$0" "$1" --help > "$2"`
  const child = spawn('sh', ['-c', script, process.execPath, CLI, file])
  const messages = text(child.stderr)
  t.strictSame(await once(child, 'exit'), [1, null])
  t.match(await messages, /^The output cannot be written: EFBIG/)
})

t.test('of the readers who close the output, only the one of an export has missed something', async (t) => {
  const { url, env, call } = await projectOfCommands()
  const { headers } = await call('POST', '/public/track', { event: 'a', distinct_id: 'ada' })
  await call('POST', '/public/track', { event: 'b', distinct_id: 'ada' })
  await call('GET', '/public/events')
  const run = async (args: string[]) => {
    const child = startCommand([...args, '--url', url], env)
    let messages = ''
    child.stderr?.setEncoding('utf8').on('data', (text) => (messages += text))
    child.stdout?.destroy()
    const [code] = await once(child, 'close')
    return [code, messages]
  }
  t.strictSame(await run(['tail', '--after', String(headers['x-event-id'])]), [0, ''])
  t.strictSame(await run(['export']), [1, 'The reader closed the output before the end.\n'])
})

t.test('a failure prints one line of plain words', async (t) => {
  const folder = await temporaryFolder(t)
  const missing = join(folder, 'missing')
  const failures: [string[], string][] = [
    [['import', missing], `${missing} does not exist.`],
    [['export', '--key-file', folder], `${folder} is a folder, but must be a file.`],
    [['export', '--key-file', missing], `${missing} does not exist.`],
    [['erase', '--file', missing], `${missing} does not exist.`],
    [['import', join(missing, 'x')], `The folder ${missing} does not exist.`],
  ]
  for (const [i, [args, message]] of failures.entries()) {
    t.strictSame(
      await (i === 0 ? runProcess : runCommand)(args),
      { code: 1, stdout: '', stderr: `${message}\n` },
      args.join(' '),
    )
  }
})
