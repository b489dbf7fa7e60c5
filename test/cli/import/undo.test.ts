import { once } from 'node:events'
import { appendFile, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { command } from '../../../src/cli/import/command.js'
import { DAY_MS } from '../../../src/contract/durations.js'
import { TcpProxy } from '../../delivery/tcp-proxy.js'
import { temporaryFolder, until } from '../../helper.js'
import { sharedApp } from '../../shared-app.js'
import { startCommand } from '../command-line.js'
import { type ProjectOfCommands, projectOfCommands } from '../project-of-commands.js'

type Row = Record<string, unknown>

/** A file of events with one name, and commands on it. */
async function fileOf(folder: string, event: string, rows: Row[]) {
  const path = join(folder, `${event}.ndjson`)
  await writeFile(path, rows.map((row) => `${JSON.stringify({ event, distinct_id: 'u', ...row })}\n`).join(''))
  return path
}

/** Slow enough that a command through it can be killed while it waits for a response. */
async function slowWay(t: Test, { url }: ProjectOfCommands): Promise<string> {
  const proxy = await TcpProxy.open(t, url)
  proxy.delayMs = 300
  return proxy.url
}

function commandsOf(project: ProjectOfCommands) {
  const run = (...args: string[]) => project.run(['import', ...args])
  const succeed = async (...args: string[]) => {
    const ended = await run(...args)
    if (ended.code !== 0) throw new Error(ended.stderr)
    return ended.stderr
  }
  /** Counts the events of each name. */
  const counts = async () => {
    const { stdout } = await project.run(['export'])
    const found: Record<string, number> = {}
    for (const line of stdout.split('\n').filter(Boolean)) {
      const { event } = JSON.parse(line)
      found[event] = (found[event] ?? 0) + 1
    }
    return found
  }
  return { run, succeed, counts }
}

const rowsOf = (count: number, more: (n: number) => Row = () => ({})) =>
  Array.from({ length: count }, (_, n) => ({ properties: { n }, ...more(n) }))

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

// On several lanes, because the ids of its events are then of several journals.
t.test('an import is undone exactly', async (t) => {
  const project = await projectOfCommands(await sharedApp('lanes'))
  const { run, succeed, counts } = commandsOf(project)
  const folder = await temporaryFolder(t)

  t.test('events of other imports, and known ones, stay', async (t) => {
    const named = (n: number) => ({ insert_id: `i${n}` })
    const live = await fileOf(folder, 'live', rowsOf(1500, named))
    await succeed(live)
    const file = await fileOf(folder, 'file', [...rowsOf(2500, named), ...rowsOf(500)])
    await succeed(file)
    t.strictSame(await counts(), { live: 1500, file: 1500 })
    const shown = await run('--undo', '--dry-run', file)
    t.match(shown.stderr, /file\.ndjson: imported at .*; 1 500 events .*are stored/)
    const refused = await run('--undo', file)
    t.equal(refused.code, 1)
    t.match(refused.stderr, 'Nothing was deleted, because there is no terminal to confirm it on. Add --yes to delete.')
    t.strictSame(await counts(), { live: 1500, file: 1500 })
    const undone = await succeed('--undo', '--yes', file)
    t.match(undone, /1 500 events deleted/)
    t.strictSame(await counts(), { live: 1500 })
    const again = await run('--undo', '--yes', file)
    t.equal(again.code, 1)
    t.match(again.stderr, 'There is no record of an import of')
    t.match(await succeed('--undo', '--yes', live), /1 500 events deleted/)
    t.strictSame(await counts(), {})
  })

  t.test('a new import of the file stores it again', async (t) => {
    const file = await fileOf(folder, 'twice', rowsOf(1500))
    await succeed(file)
    await succeed('--undo', '--yes', file)
    t.notOk((await readdir(folder)).some((name) => name.startsWith('twice.ndjson.')))
    await succeed(file)
    t.strictSame(await counts(), { twice: 1500 })
    await succeed('--undo', '--yes', file)
    t.strictSame(await counts(), {})
  })

  t.test('a new import stores events with ids again, each once', async (t) => {
    const named = (n: number) => ({ insert_id: `again ${n}`, timestamp: Date.UTC(2024, 0, 1) + n })
    // Two days apart, and in different batches.
    const repeated = named(0)
    const rows = [...rowsOf(1500, named), { ...repeated, timestamp: repeated.timestamp + 2 * DAY_MS }]
    const file = await fileOf(folder, 'again', rows)
    for (const missing of [0, 0, 1, 2]) {
      await fileOf(folder, 'again', rows.slice(missing))
      await succeed(file)
      // Without its first row, the repetition of that is the only one.
      t.strictSame(await counts(), { again: missing === 0 ? 1500 : 1501 - missing })
      t.match(await succeed('--undo', '--yes', file), /events deleted/)
      t.strictSame(await counts(), {})
    }
    await succeed(file)
    const other = await fileOf(
      folder,
      'other name',
      rows.slice(2).map((row) => ({ ...row, event: 'again' })),
    )
    await succeed(other)
    t.strictSame(await counts(), { again: 1499 }, 'what is stored again is known')
    await succeed('--undo', '--yes', file)
    t.strictSame(await counts(), {})
  })

  t.test('an import that was killed and resumed is undone', async (t) => {
    const rows = rowsOf(4000, (n) => (n % 3 === 0 ? { insert_id: `killed ${n}` } : {}))
    const file = await fileOf(folder, 'killed', rows)
    const slow = await slowWay(t, project)
    const importer = startCommand(['import', '--url', slow, '--parallel', '2', file], project.env)
    const closed = once(importer, 'close')
    await until('a batch to be stored', () => exists(`${file}.import.json.ids`))
    importer.kill('SIGKILL')
    await closed
    await utimes(file, 0, 0) // like a copy: the content is the same
    if (!JSON.parse(await readFile(`${file}.import.json`, 'utf8')).finishedAt) {
      const unclear = await run('--undo', '--yes', '--url', slow, file)
      t.equal(unclear.code, 1)
      t.match(unclear.stderr, /was interrupted while batches were being sent.* Rerun it without --undo to resume it/)
    }
    await succeed('--url', slow, file)
    t.strictSame(await counts(), { killed: 4000 })
    t.match(await succeed('--undo', '--yes', '--url', slow, file), /4 000 events deleted/)
    t.strictSame(await counts(), {})
  })
})

t.test('an undo that was killed is completed, and nothing is imported before', async (t) => {
  const project = await projectOfCommands()
  const { run, succeed, counts } = commandsOf(project)
  const slow = await slowWay(t, project)
  const folder = await temporaryFolder(t)
  const [file, other] = await Promise.all([fileOf(folder, 'file', rowsOf(2000)), fileOf(folder, 'other', rowsOf(10))])
  await succeed('--url', slow, file, other)
  const statePath = `${file}.import.json`
  const undo = startCommand(['import', '--undo', '--yes', '--url', slow, file], project.env)
  const closed = once(undo, 'close')
  const isBegun = async () => {
    const text = await readFile(statePath, 'utf8').catch(() => '{"undoneSince":1}')
    return JSON.parse(text).undoneSince !== undefined
  }
  await until('the undo to begin', isBegun)
  undo.kill('SIGKILL')
  await closed
  if (await exists(statePath)) {
    const refused = await run('--url', slow, file)
    t.equal(refused.code, 1)
    t.match(refused.stderr, /The undo of the import of .* is not complete/)
    await succeed('--undo', '--yes', '--url', slow, file)
  }
  t.strictSame(await counts(), { other: 10 })
  await succeed('--undo', '--yes', '--url', slow, other)
  t.strictSame(await counts(), {})
})

t.test('undo asks for confirmation on a terminal', async (t) => {
  const project = await projectOfCommands()
  const { succeed, counts } = commandsOf(project)
  const file = await fileOf(await temporaryFolder(t), 'file', rowsOf(10))
  await succeed(file)
  const answer = async (reply: string) => {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const io = {
      env: project.env,
      stdin: Object.assign(stdin, { isTTY: true }),
      stdout,
      stderr,
      signal: new AbortController().signal,
    }
    stdin.write(`${reply}\n`)
    const code = await command.run(['--undo', '--url', project.url, file], io)
    return { code, text: String(stderr.read()) }
  }
  for (const reply of ['', 'n', 'yellow']) {
    const { code, text } = await answer(reply)
    t.equal(code, 1, reply)
    t.match(text, /Delete 10 events\? \[y\/N\] .*Nothing was deleted/s)
  }
  t.strictSame(await counts(), { file: 10 })
  t.equal((await answer('Y')).code, 0)
  t.strictSame(await counts(), {})
})

t.test('undo refuses imports that cannot be undone', async (t) => {
  const { run, succeed, counts } = commandsOf(await projectOfCommands())
  const folder = await temporaryFolder(t)
  const file = await fileOf(folder, 'file', rowsOf(10))
  const fails = async (message: RegExp, code = 1, args = ['--undo', '--yes', file]) => {
    const ended = await run(...args)
    t.equal(ended.code, code)
    t.match(ended.stderr, message)
  }
  await fails(/--undo needs the FILE/, 2, ['--undo'])
  await fails(/--yes is for --undo/, 2, ['--yes', file])
  await fails(/There is no record of an import/)
  await succeed(file)
  const statePath = `${file}.import.json`
  const text = await readFile(statePath, 'utf8')
  const state = JSON.parse(text)
  await writeFile(statePath, JSON.stringify({ ...state, url: 'http://127.0.0.1:1' }))
  await fails(/was imported at http:\/\/127.0.0.1:1, not at/)
  await writeFile(statePath, JSON.stringify({ ...state, project: 'another' }))
  await fails(/was imported into project another, but the key belongs to/)
  await writeFile(statePath, JSON.stringify({ ...state, version: 1 }))
  await fails(/was written by another version of tallyhouse/)
  await writeFile(statePath, JSON.stringify({ ...state, done: { ...state.done, storedBytes: 1000 } }))
  await fails(/is missing or incomplete/)
  t.strictSame(await counts(), { file: 10 })
  const sent = [{ upTo: state.done.batches + 64, at: state.finishedAt }]
  const unclear = { ...state, done: { ...state.done, uncertain: 3 }, sent, finishedAt: null }
  await writeFile(statePath, JSON.stringify(unclear))
  await fails(/Rerun it without --undo to resume it/)
  await appendFile(file, '\n')
  await fails(/10 events deleted.*Up to 3 more events.*Up to 64 000 more events/s)
  t.strictSame(await counts(), {})
})
