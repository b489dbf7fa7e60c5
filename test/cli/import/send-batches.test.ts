import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { elementTexts, memberText } from '../../../src/json/texts.js'
import { answer, faultyServer, keyAccepted, type Received } from '../../client/faulty-server.js'
import { TcpProxy } from '../../delivery/tcp-proxy.js'
import { type Client, realEvents, temporaryFolder, until } from '../../helper.js'
import { runCommand, startCommand } from '../command-line.js'
import { essence } from '../essence.js'
import { type ProjectOfCommands, projectOfCommands } from '../project-of-commands.js'

async function exportAll({ call }: Client): Promise<string[]> {
  const texts: string[] = []
  for (let cursor = ''; ; ) {
    const { body } = await call('GET', `/public/events?limit=10000${cursor}`)
    texts.push(...elementTexts(memberText(body, 'events') ?? ''))
    const next = JSON.parse(memberText(body, 'next') ?? 'null')
    if (next === null) return texts
    cursor = `&cursor=${next}`
  }
}

// One storage is enough: that a batch with the same key is stored once is tested on each in test/routes/.
t.test('an import that is killed resumes, and stores every event once', async (t) => {
  const project = await projectOfCommands()
  const proxy = await TcpProxy.open(t, project.url)
  // Slow enough that the command is killed twice before it finishes.
  proxy.delayMs = 200
  const lines = await realEvents()
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, `${lines.join('\n')}\n`)

  let done = 0
  for (let kills = 0; kills < 2; kills++) {
    const child = startCommand(['import', '--url', proxy.url, '--parallel', '2', path], project.env)
    const ended = once(child, 'exit')
    done = await until('a part of the import', async () => {
      if (child.exitCode !== null) throw new Error('the import came to its end')
      const state = await readFile(`${path}.import.json`, 'utf8').catch(() => '{}')
      const accepted = JSON.parse(state).done?.accepted ?? 0
      return accepted > done && accepted
    })
    child.kill('SIGKILL')
    await ended
  }
  t.ok((await exportAll(project)).length >= done, 'what was recorded as accepted is stored')
  const run = () => runCommand(['import', '--url', proxy.url, path], '', project.env)
  const last = await run()
  t.equal(last.code, 0, last.stderr)
  t.match(last.stderr, /resuming after \d/)
  const exported = await exportAll(project)
  t.strictSame(exported.map(essence).sort(), lines.map(essence).sort(), 'every event is stored once, byte for byte')

  const again = await run()
  t.equal(again.code, 0)
  t.match(again.stderr, /was imported at/)
  t.equal((await exportAll(project)).length, lines.length, 'importing it again stores nothing')
  t.match(JSON.parse(await readFile(`${path}.import.json`, 'utf8')), {
    done: { accepted: lines.length, line: lines.length },
  })
})

t.test('a finished import is only repeated into another project, and can still be undone', async (t) => {
  const [project, other] = [await projectOfCommands(), await projectOfCommands()]
  const folder = await temporaryFolder(t)
  const path = join(folder, 'events.ndjson')
  await writeFile(path, '{"event":"e","distinct_id":"u"}\n')
  const run = (env: NodeJS.ProcessEnv, ...args: string[]) => {
    return runCommand(['import', ...(args.includes('--url') ? [] : ['--url', project.url]), ...args, path], '', env)
  }
  t.match(await run(project.env), { code: 0, stderr: / 1 event stored/ })
  const { apiKey } = (await project.call('POST', '/public/keys', { kind: 'secret' })).json()
  t.match(await run({ SECRET_KEY: apiKey }), { code: 0, stderr: /was imported at/ }, 'with another key')
  const { url } = await TcpProxy.open(t, project.url)
  t.match(await run(project.env, '--url', url), { code: 1, stderr: /was started at .* use the first address/ })
  t.match(await run(other.env), { code: 1, stderr: /a key of project .* with --state/ })
  t.match(await run(other.env, '--state', join(folder, 'other.json')), { code: 0, stderr: / 1 event stored/ })
  t.equal((await exportAll(project)).length, 1)
  t.equal((await exportAll(other)).length, 1)
  t.match(await run({ SECRET_KEY: apiKey }, '--undo', '--yes'), { code: 0, stderr: /1 event deleted/ })
  t.equal((await exportAll(project)).length, 0)
})

/**
 * Kills an import when events of a partly refused batch are stored, before it knows that.
 * @returns the URL at which it can resume
 */
async function killWithoutReply(t: Test, path: string, { url, env }: ProjectOfCommands): Promise<string> {
  const proxy = await TcpProxy.open(t, url)
  const lost = proxy.loseReply('-rest', 'silence')
  const child = startCommand(['import', '--url', proxy.url, path], env)
  const ended = once(child, 'exit')
  await lost
  child.kill('SIGKILL')
  await ended
  return proxy.url
}

t.test('an import stores every event once although the project keeps events for longer when it resumes', async (t) => {
  const project = await projectOfCommands()
  const keep = (events: string) => project.call('PATCH', '/public/project', { keep: { events } })
  const ages = Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? 40 : 1))
  const lines = ages.map((days, i) => {
    const timestamp = Date.now() - days * 86_400_000
    return JSON.stringify({ event: 'e', distinct_id: 'u', timestamp, properties: { i } })
  })
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, `${lines.join('\n')}\n`)
  await keep('30d')
  const url = await killWithoutReply(t, path, project)
  t.equal(JSON.parse(await readFile(`${path}.import.json`, 'utf8')).done.batches, 0)
  await keep('60d')
  const last = await runCommand(['import', '--url', url, path], '', project.env)
  t.match(last.stderr, /100 events stored, 100 rejected/)
  const indexes = (await exportAll(project)).map((text) => JSON.parse(text).properties.i)
  t.strictSame(
    indexes,
    ages.flatMap((days, i) => (days === 1 ? [i] : [])),
  )
  const { refused } = JSON.parse(await readFile(`${path}.import.json`, 'utf8'))
  t.strictSame(refused, {}, 'what was refused is forgotten')
})

/** As if an import had been killed 25 h ago, before any acknowledgement was recorded. */
async function expire(statePath: string): Promise<void> {
  const text = await readFile(statePath, 'utf8')
  const state = JSON.parse(text)
  const none = { batches: 0, offset: 0, line: 0, accepted: 0, rejected: 0, known: 0, storedBytes: 0, rejectsBytes: 0 }
  const sent = [{ upTo: 64, at: new Date(Date.now() - 25 * 3_600_000).toISOString() }]
  const killed = JSON.stringify({ ...state, done: { ...state.done, ...none }, sent, finishedAt: null })
  // The service still remembers the keys, so other ones stand for keys that it has forgotten.
  await writeFile(statePath, killed.replaceAll(state.importId, 'expired'))
}

t.test('partly refused batches are found if the import resumes after their keys have expired', async (t) => {
  const project = await projectOfCommands()
  const folder = await temporaryFolder(t)
  await project.call('PATCH', '/public/project', { keep: { events: '30d' } })
  const ages = Array.from({ length: 200 }, (_, i) => (i % 3 === 0 ? 40 : 1))
  const lines = ages.map((days, i) => {
    const timestamp = Date.now() - days * 86_400_000
    return JSON.stringify({ event: 'e', distinct_id: 'u', timestamp, properties: { i } })
  })
  for (const [name, texts] of Object.entries({ lines, rows: lines.map((line) => ` ${line} `) })) {
    const path = join(folder, `${name}.ndjson`)
    await writeFile(path, `${texts.join('\n')}\n`)
    const before = (await exportAll(project)).length
    const url = await killWithoutReply(t, path, project)
    await expire(`${path}.import.json`)
    const last = await runCommand(['import', '--url', url, path], '', project.env)
    t.match(last, { code: 1, stderr: /133 events stored, 67 rejected/ }, name)
    t.equal((await exportAll(project)).length - before, 133, name)
  }
})

t.test('batches of which the service had some events are found after their keys have expired', async (t) => {
  const project = await projectOfCommands()
  const folder = await temporaryFolder(t)
  const id = (i: number) => (i % 4 === 0 ? `,"insert_id":"id-${Math.floor(i / 8)}"` : '')
  const lines = Array.from(
    { length: 200 },
    (_, i) => `{"event":"e","distinct_id":"u","timestamp":1700000000000,"properties":{"i":${i}}${id(i)}}`,
  )
  const path = join(folder, 'events.ndjson')
  await writeFile(path, `${lines.join('\n')}\n`)
  const run = () => project.run(['import', path])
  t.match(await run(), { code: 0 })
  t.equal((await exportAll(project)).length, 175)
  await expire(`${path}.import.json`)
  t.match(await run(), { code: 0, stderr: /175 events stored, 25 already stored/ })
  t.equal((await exportAll(project)).length, 175)
})

t.test('batches of an earlier import of the file are not taken for those of this one', async (t) => {
  const project = await projectOfCommands()
  const path = join(await temporaryFolder(t), 'events.ndjson')
  const state = `${path}.import.json`
  await writeFile(path, '{"event":"e","distinct_id":"u","timestamp":1700000000000}\n')
  t.match(await project.run(['import', path]), { code: 0, stderr: / 1 event stored/ })
  // As if another import had begun an hour later, and had been killed before anything reached the service.
  await expire(state)
  const begunAt = Date.now() + 3_600_000
  await writeFile(state, JSON.stringify({ ...JSON.parse(await readFile(state, 'utf8')), begunAt }))
  t.match(await project.run(['import', path]), { code: 0, stderr: / 1 event stored/ })
  t.equal((await exportAll(project)).length, 2)
  t.match(await project.run(['import', '--undo', '--yes', path]), { code: 0, stderr: /1 event deleted/ })
  t.equal((await exportAll(project)).length, 1)
})

t.test('an import begins at the time of the service, whatever the clock of its own machine says', async (t) => {
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u"}\n')
  const now = Date.UTC(2020, 1, 29, 12)
  const key = (response: ServerResponse, request: Received) => {
    response.setHeader('date', new Date(now).toUTCString())
    keyAccepted(response, request)
  }
  const server = await faultyServer(t, [key, answer(200, '{"status":1,"error":null,"accepted":1}')])
  t.match(await runCommand(['import', '--url', server.url, path]), { code: 0 })
  const [, storedBefore] = /stored_before=(\d+)$/.exec(server.received[1]?.url ?? '') ?? []
  t.equal(Math.floor(Number(storedBefore) / 1000) * 1000, now)
})

t.test('lines that are not valid events are rewritten if possible, or rejected', async (t) => {
  const project = await projectOfCommands()
  const path = join(await temporaryFolder(t), 'events.ndjson')
  const good = (n: number, more = '') =>
    `{"event":"e","distinct_id":"u","timestamp":${n},"properties":{"n": ${n}.0}${more}}`
  const twice = [5, 6].map((n) => good(n)).join()
  const rows = [
    ...Array.from({ length: 1500 }, (_, n) => good(n)),
    '{"event":"e","distinct_id":"u","price":1.0}',
    '',
    twice,
    '{"event":"e"}',
    '\f',
    `  {"\\u0065vent":"e","distinct_id":"u","properties":{"a":1,"a":2}}\r`,
    '{"event":"e",',
    good(1500, ',"price":3'),
  ]
  await writeFile(path, `${rows.join('\n')}\n`)
  const run = () => project.run(['import', '--time', 'ms', path])
  t.match(await run(), { code: 1, stderr: /1 503 events stored, 3 rejected/ })
  const exported = await exportAll(project)
  t.equal(exported.length, 1503)
  t.strictSame(
    exported.slice(-3).map((text) => memberText(text, 'properties')),
    ['{"price":1.0}', '{"a":1,"a":2}', '{"n": 1500.0}'],
  )
  const rejects = await readFile(`${path}.rejects.ndjson`, 'utf8')
  const found = rejects
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text))
  t.match(found, [
    { line: 1503, reason: /not valid JSON/, row: twice },
    { line: 1504, reason: /^distinct_id is required/ },
    { line: 1507, reason: /not valid JSON/ },
  ])
  t.equal(found.length, 3)

  // Simulates a kill before the acknowledgements were recorded.
  const state = JSON.parse(await readFile(`${path}.import.json`, 'utf8'))
  const done = {
    ...state.done,
    batches: 0,
    offset: 0,
    line: 0,
    accepted: 0,
    rejected: 0,
    storedBytes: 0,
    rejectsBytes: 0,
  }
  const sent = [{ upTo: 64, at: new Date().toISOString() }]
  await writeFile(`${path}.import.json`, JSON.stringify({ ...state, done, sent, finishedAt: null }))
  t.match(await run(), { code: 1, stderr: /1 503 events stored, 3 rejected/ })
  t.equal((await exportAll(project)).length, 1503, 'nothing is stored twice')
  t.equal(await readFile(`${path}.rejects.ndjson`, 'utf8'), rejects)
})

t.test('a waiting import says why, once', async (t) => {
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u"}\n')
  const accepted = answer(200, '{"status":1,"error":null,"accepted":1}')
  const refused = answer(503, '{"status":0,"error":"A \\u001bsentence.","code":"unavailable"}')
  const server = await faultyServer(t, [refused, keyAccepted, refused, refused, refused, accepted])
  const { code, stderr } = await runCommand(['import', '--url', server.url, path])
  t.equal(code, 0)
  t.match(stderr, ' is not ready: A \uFFFDsentence. Retrying')
  t.strictSame(stderr.match(/^Trying again: .*$/gm), ['Trying again: A \uFFFDsentence.'])
})

t.test('a mistaken first attempt does not prevent the import', async (t) => {
  const project = await projectOfCommands()
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, '{"event":"e","distinct_id":"ada","timestamp":17000000}\n')
  const to = ['import', path]
  t.match(await project.run(to), { code: 1, stderr: /--time s reads seconds/ })
  const keyFile = join(await temporaryFolder(t), 'key')
  await writeFile(keyFile, 'sk_mistaken')
  const withOtherKey = [...to, '--time', 's', '--key-file', keyFile]
  t.match(await project.run(withOtherKey), { code: 1, stderr: /key is not known/ })
  t.match(await project.run([...to, '--time', 's']), { code: 0, stderr: / 1 event stored/ })
  t.match(await project.run(withOtherKey), { code: 1, stderr: /key is not known/ })
  t.match(
    await project.run([...to, '--time', 's']),
    { code: 0, stderr: /was imported at/ },
    'the state of the finished import is kept',
  )
  t.equal((await exportAll(project)).length, 1)
  const table = join(await temporaryFolder(t), 'events.csv')
  await writeFile(table, 'event;distinct_id\ne;grace\n')
  const tableTo = ['import', table]
  t.match(await project.run(tableTo), { code: 1, stderr: /--delimiter ';' would give 2/ }, 'a wrong delimiter')
  t.match(await project.run([...tableTo, '--delimiter', ';']), { code: 0, stderr: /1 event stored, 0 rejected/ })
  t.notOk((await readdir(dirname(table))).includes('events.csv.rejects.ndjson'))
  t.match(
    await project.run([...tableTo, '--delimiter', ';', '--time', 'ms']),
    { code: 1, stderr: /started with other options/ },
    'the state of the finished import is kept',
  )

  t.test('a folder is imported file by file', async (t) => {
    const folder = await temporaryFolder(t)
    await mkdir(join(folder, 'more'))
    const event = (name: string) => `{"event":"${name}","distinct_id":"folder"}\n`
    await writeFile(join(folder, 'b.ndjson'), event('second'))
    await writeFile(join(folder, 'a.json.br'), brotliCompressSync(`[${event('first')}]`))
    await writeFile(join(folder, 'more', 'part-0000'), event('third'))
    await writeFile(join(folder, '\u001bnotes.pdf'), 'x')
    // As if an export had written one of the files, and had been killed.
    for (const end of ['', '.new', '.lock'])
      await writeFile(join(folder, `b.ndjson.export.json${end}`), '{"version":1}')
    await writeFile(join(folder, 'a.json.export.json'), '{"version":1}')
    await writeFile(join(folder, '\u001bvendor.export.json'), event('fourth'))
    const imported = await project.run(['import', folder])
    t.match(imported, { code: 0, stderr: /Skipped.*notes\.pdf\.\n[\s\S]*\n4 events in/ })
    t.notOk(imported.stderr.includes('\u001b'))
    const again = await project.run(['import', folder])
    t.equal(again.stderr.match(/was imported at/g)?.length, 4, 'each file has its own state')
    const names = (await exportAll(project)).slice(-4).map((text) => JSON.parse(text).event)
    t.strictSame(names, ['fourth', 'first', 'second', 'third'])
  })
  t.test('user properties are set in the profiles once, in the order of the file', async (t) => {
    const people = join(await temporaryFolder(t), 'people.ndjson')
    const row = (user: number, visits: number) =>
      `{"type":"identify","userId":"u${user}","traits":{"visits":${visits}.0,"n${visits % 3}":1}}`
    const lines = Array.from({ length: 3500 }, (_, i) => row(i % 7, Math.floor(i / 7)))
    await writeFile(people, [...lines, '{"type":"group","groupId":"acme","traits":{"seats":5}}'].join('\n'))
    const child = startCommand(['import', '--url', project.url, '--from', 'segment', people], project.env)
    const ended = once(child, 'exit')
    await until('the import to begin', async () => (await readFile(`${people}.import.json`).catch(() => '')).length > 0)
    child.kill('SIGKILL')
    await ended
    const get = async (name: string) => {
      const { body } = await project.call('GET', `/public/users/${name}`)
      return memberText(memberText(body, 'user') ?? '{}', 'properties')
    }
    const imported = await project.run(['import', '--from', 'segment', people])
    t.match(imported, { code: 0, stderr: /3 501 profile changes made/ })
    for (let user = 0; user < 7; user++) t.match(await get(`u${user}`), /"visits":499\.0/)
    t.equal(await get('$group:acme'), '{"seats":5}')
    const again = await project.run(['import', '--from', 'segment', people])
    t.match(again.stderr, /was imported at/)
  })
})
