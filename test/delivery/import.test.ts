import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { command } from '../../src/cli/import/command.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { runProcess, startCommand } from '../cli/command-line.js'
import { answer, cut, failure, faultyServer, keyAccepted } from '../client/faulty-server.js'
import {
  freePort,
  realEvents,
  SECRET_KEY,
  type Service,
  settingsFor,
  startService,
  temporaryFolder,
  until,
} from '../helper.js'

const HOUR_MS = 60 * 60 * 1000

async function countOf(service: Service): Promise<number> {
  const { stdout } = await runProcess(['export', '--url', service.url])
  return stdout === '' ? 0 : stdout.trimEnd().split('\n').length
}

function accepted(count: number) {
  return answer(200, JSON.stringify({ status: 1, error: null, accepted: count }))
}

t.test('a batch that fails for a moment is sent again, the same bytes with the same key', async (t) => {
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u"}\n{"event":"b","distinct_id":"u"}\n')
  const faults = [failure(503, 'unavailable'), failure(429, 'rate_limited', { 'retry-after': '1' }), cut, accepted(2)]
  // The first request checks the key.
  const server = await faultyServer(t, [failure(503, 'unavailable'), keyAccepted, ...faults])
  const startedAt = performance.now()
  const { code, stderr } = await runProcess(['import', '--url', server.url, path])
  t.equal(code, 0, stderr)
  t.match(stderr, `The service at ${server.url} is not ready: `)
  t.ok(performance.now() - startedAt >= 1000, 'after the time that Retry-After asks for')
  const batches = server.received.slice(2)
  t.equal(batches.length, 4)
  t.equal(new Set(batches.map(({ headers }) => headers['idempotency-key'])).size, 1)
  t.equal(new Set(batches.map(({ body }) => body)).size, 1)
})

t.test('an import of a file that changes in the meantime says so', async (t) => {
  const path = join(await temporaryFolder(t), 'events.ndjson')
  await writeFile(path, '{"event":"a","distinct_id":"u"}\n')
  const server = await faultyServer(t, [
    keyAccepted,
    (response, request) => {
      appendFileSync(path, '{"event":"b","distinct_id":"u"}\n')
      accepted(1)(response, request)
    },
  ])
  const { code, stderr } = await runProcess(['import', '--url', server.url, path])
  t.equal(code, 1)
  t.match(stderr, /1 event stored, 0 rejected\.\n.* has changed during the import.*import --undo/)
})

t.test(
  'a first call that fails permanently ends the command immediately, and the message has its address',
  async (t) => {
    const folder = await temporaryFolder(t)
    const path = join(folder, 'events.ndjson')
    await writeFile(path, '{"event":"a","distinct_id":"u"}\n')
    const output = join(folder, 'exported.ndjson')
    const page = await faultyServer(t, [answer(200, '<!doctype html>')])
    const busy = await faultyServer(t, [answer(503, 'the proxy finds nobody')])
    const strange = await faultyServer(t, [failure(401, 'unauthorized')])
    const closed = await faultyServer(t, [cut])
    const faults: [url: string, reason: RegExp][] = [
      [`http://127.0.0.1:${await freePort()}`, /nothing listens there \(ECONNREFUSED\)/],
      ['http://tallyhouse.invalid', /its host name (is unknown|cannot be looked up)/],
      [page.url, /something else responds there, with status 200/],
      [busy.url, /something else responds there, with status 503/],
      [closed.url, /closed without a response/],
      [page.url.replace('http', 'https'), /does not speak TLS/],
      [strange.url, /refuses the key/],
    ]
    const startedAt = performance.now()
    for (const [url, reason] of faults) {
      for (const args of [
        ['import', path],
        ['export', '--output', output],
        ['erase', '--distinct-id', 'u'],
      ]) {
        if (args[0] === 'erase' && url !== faults[0]?.[0]) continue
        const { code, stderr } = await runProcess([...args, '--url', url])
        t.equal(code, 1)
        t.match(stderr, reason, `${args[0]} ${url}`)
        t.match(stderr, url)
      }
    }
    // If each of them retried, it would take at least twice as long.
    t.ok(performance.now() - startedAt < 240_000)
    t.strictSame(await readdir(folder), ['events.ndjson'], 'no state is written')
  },
)

t.test('events that only the service can refuse are rejected, and the others are stored', async (t) => {
  const service = await startService(t, {
    ...(await settingsFor(t, 'embedded')),
    BATCH_BODY_LIMIT: '20000',
    MAX_PROPERTY_DEPTH: '10',
  })
  const path = join(await temporaryFolder(t), 'events.ndjson')
  const real = (await realEvents()).slice(0, 1500)
  const deep = `{"event":"deep","distinct_id":"u","properties":{"a":${'['.repeat(20)}${']'.repeat(20)}}}`
  const large = `{"event":"large","distinct_id":"u","properties":{"text":"${'x'.repeat(30_000)}"}}`
  await writeFile(path, [...real.slice(0, 10), deep, ...real.slice(10, 20), large, ...real.slice(20)].join('\n'))
  const { code, stderr } = await runProcess(['import', '--url', service.url, path])
  t.equal(code, 1)
  t.match(stderr, /1 500 events stored, 2 rejected/)
  t.equal(await countOf(service), 1500)
  const rejects = (await readFile(`${path}.rejects.ndjson`, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(rejects, [
    { line: 11, reason: /nested/ },
    { line: 22, reason: /too large|larger|limit/i },
  ])
})

t.test('a batch with too many property names is halved', async (t) => {
  const service = await startService(t, await settingsFor(t, 'embedded'))
  const path = join(await temporaryFolder(t), 'events.ndjson')
  // A line with an unknown field may have to be parsed, so its weight counts.
  const event = (names: number) =>
    `{"eventId":"x","event":"e","distinct_id":"u","properties":{${'"a":1,'.repeat(names)}"b":2}}\n`
  await writeFile(path, event(100_000).repeat(7) + event(600_000))
  const { code, stderr } = await runProcess(['import', '--url', service.url, path])
  t.equal(code, 1)
  t.match(stderr, /7 events stored, 1 rejected/)
  t.equal(await countOf(service), 7)
})

t.test('Ctrl-C ends an import that waits for its input, and says how to resume', async (t) => {
  const server = await faultyServer(t, [keyAccepted, accepted(1000), accepted(1000), keyAccepted])
  const interrupt = async (given: string, isReached: (stderr: string) => boolean) => {
    const child = startCommand(['import', '--url', server.url, '--parallel', '1', '-'])
    t.teardown(() => child.kill('SIGKILL'))
    let stderr = ''
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      stderr += text
    })
    child.stdin?.write(given)
    await until('the input to be read', () => isReached(stderr))
    const closed = once(child, 'close')
    child.kill('SIGINT')
    const [code] = await closed
    return { code, stderr }
  }
  const row = '{"event":"e","distinct_id":"u"}\n'
  const some = await interrupt(row.repeat(2500), () => server.received.length === 3)
  t.equal(some.code, 1)
  t.match(some.stderr, /2 000 events stored.*\nInterrupted\. To resume, import the lines after the first 2 000\./)
  const none = await interrupt(row, (stderr) => stderr.includes('Standard input'))
  t.equal(none.code, 1)
  t.match(none.stderr, /Interrupted(\. Nothing was stored| before anything was sent)\./)
})

t.test('Ctrl-C ends an import that has received no input yet', async (t) => {
  const stop = new AbortController()
  const stderr = new PassThrough()
  const io = { env: { SECRET_KEY }, stdin: new PassThrough(), stdout: new PassThrough(), stderr, signal: stop.signal }
  const code = command.run(['--url', 'http://127.0.0.1:1'], io)
  setImmediate(() => stop.abort())
  t.equal(await code, 1)
  t.match(stderr.read().toString(), 'Interrupted before anything was sent.')
})

t.test('Ctrl-C ends an import that has not opened its input yet', async (t) => {
  const stderr = new PassThrough()
  const signal = AbortSignal.abort()
  const io = { env: { SECRET_KEY }, stdin: new PassThrough(), stdout: new PassThrough(), stderr, signal }
  t.equal(await command.run(['--url', 'http://127.0.0.1:1', '-'], io), 1)
  t.match(stderr.read().toString(), 'Interrupted before anything was sent.')
})

t.test('an import of a truncated file resumes with the whole file', async (t) => {
  const service = await startService(t, await settingsFor(t, 'embedded'))
  const path = join(await temporaryFolder(t), 'events.ndjson.gz')
  const lines = (await realEvents()).slice(0, 6000)
  const whole = gzipSync(`${lines.join('\n')}\n`)
  const run = () => runProcess(['import', '--url', service.url, path])
  await writeFile(path, whole.subarray(0, whole.length / 2))
  const cut = await run()
  t.equal(cut.code, 1)
  const [, stored = ''] = /compressed data\. Already stored: ([1-5] 000) events\. Get the whole/.exec(cut.stderr) ?? []
  t.equal(await countOf(service), Number(stored.replace(' ', '')), cut.stderr)
  await writeFile(path, gzipSync(`${[...lines].reverse().join('\n')}\n`))
  t.match(await run(), { code: 1, stderr: /has changed since its import began/ }, 'another file is not its whole')
  await writeFile(path, whole)
  t.match(await run(), { code: 0, stderr: /6 000 events stored, 0 rejected/ })
  t.equal(await countOf(service), 6000, 'nothing is stored twice')

  const damaged = `${path}.damaged`
  const end = whole.length - 1000
  await writeFile(damaged, Buffer.from(whole).fill(0xff, end, end + 20))
  const { stderr } = await runProcess(['import', '--url', service.url, damaged])
  t.match(
    stderr,
    /damaged .*\. Already stored: ([1-5] 000) events\. Get a good copy\. To resume, import the lines after the first \1\./,
  )
})

t.test('an import of a damaged JSON array says what is stored, and resumes with the whole file', async (t) => {
  const service = await startService(t, await settingsFor(t, 'embedded'))
  const path = join(await temporaryFolder(t), 'events.json')
  const whole = `[${(await realEvents()).slice(0, 6000).join(',\n')}]`
  const run = () => runProcess(['import', '--url', service.url, path])
  await writeFile(path, whole.slice(0, whole.length / 2))
  const cut = await run()
  t.equal(cut.code, 1)
  const said = /events\.json: The JSON array has no end\. Already stored: ([1-5] 000) events\. Get the whole/
  const [, stored = ''] = said.exec(cut.stderr) ?? []
  t.equal(await countOf(service), Number(stored.replace(' ', '')), cut.stderr)
  await writeFile(path, whole)
  t.match(await run(), { code: 0, stderr: /6 000 events stored, 0 rejected/ })
  t.equal(await countOf(service), 6000, 'nothing is stored twice')

  const damaged = `${path}.damaged`
  await writeFile(damaged, `${whole}]`)
  const { stderr } = await runProcess(['import', '--url', service.url, damaged])
  t.match(
    stderr,
    /damaged: Line 6000 .* expected\. Already stored: ([56] 000) events\. .* import an array of the elements after the first \1\./,
  )
})

t.test('an import of truncated standard input says how to resume', async (t) => {
  const server = await faultyServer(t, [keyAccepted, accepted(1000)])
  const cut = gzipSync((await realEvents()).slice(0, 6000).join('\n')).subarray(0, 40_000)
  const { code, stderr } = await runProcess(['import', '--url', server.url, '-'], cut)
  t.equal(code, 1)
  t.match(stderr, /standard input ends .* ([1-5] 000) events\. To resume, import the lines after the first \1\./)
})

t.test('an import that cannot be resumed says why', async (t) => {
  const service = await startService(t, await settingsFor(t, 'embedded'))
  const path = join(await temporaryFolder(t), 'events.ndjson')
  const state = `${path}.import.json`
  await writeFile(path, '{"event":"a","distinct_id":"u"}\n')
  const run = (...args: string[]) => runProcess(['import', '--url', service.url, ...args, path])
  t.equal((await run()).code, 0)
  const finished = JSON.parse(await readFile(state, 'utf8'))
  const begun = (changes: object) => writeFile(state, JSON.stringify({ ...finished, finishedAt: null, ...changes }))

  await begun({})
  t.match(await run('--time', 'ms'), { code: 1, stderr: /started with other options/ })
  await begun({ url: 'http://127.0.0.1:1' })
  t.match(await run(), { code: 1, stderr: /started at http:\/\/127\.0\.0\.1:1, not at/ })
  await begun({ project: 'another' })
  t.match(await run(), { code: 1, stderr: /started with a key of project another/ })
  await begun({})
  await writeFile(path, '{"event":"b","distinct_id":"u"}\n')
  t.match(await run(), { code: 1, stderr: /has changed since its import began/ })
  await begun({ finishedAt: finished.finishedAt })
  t.match(await run(), { code: 1, stderr: /has changed since it was imported at 2.* undo that import first: .*--undo/ })
  const moved = join(await temporaryFolder(t), 'state.json')
  await rename(state, moved)
  t.match(await run('--state', moved), { code: 1, stderr: `--undo ${path} --state ${moved}\n` })
  await rename(moved, state)
  await writeFile(state, '{"version":')
  t.match(await run(), { code: 1, stderr: /is damaged/ })
  t.equal(await countOf(service), 1)
  t.match(await runProcess(['import', '--url', service.url, '--map', 'user', path]), {
    code: 2,
    stderr: /--map must be like/,
  })
})

t.test('batches whose idempotency keys have expired are looked up in the service', async (t) => {
  const services = [
    await startService(t, await settingsFor(t, 'embedded')),
    await startService(t, await settingsFor(t, 'embedded')),
  ] as const
  const [first, empty] = services
  const path = join(await temporaryFolder(t), 'events.ndjson')
  const lines = (await realEvents()).slice(0, 4_500)
  await writeFile(path, `${lines.join('\n')}\n`)
  const run = (service: Service, ...args: string[]) => runProcess(['import', '--url', service.url, ...args, path])
  t.equal((await run(first)).code, 0)
  const state = JSON.parse(await readFile(`${path}.import.json`, 'utf8'))
  // As if the import had been killed 25 h ago, with three of its five batches not acknowledged: their keys have
  // expired.
  const done = { ...state.done, batches: 2, line: 2000, accepted: 2000 }
  done.offset = Buffer.byteLength(
    lines
      .slice(0, 2000)
      .map((line) => `${line}\n`)
      .join(''),
  )
  const sent = [{ upTo: 64, at: new Date(Date.now() - 25 * HOUR_MS).toISOString() }]
  const killed = (service: Service) =>
    writeFile(
      `${path}.import.json`,
      JSON.stringify({ ...state, url: service.url, importId: 'expired', done, sent, finishedAt: null }),
    )

  await killed(first)
  const checked = await run(first)
  t.equal(checked.code, 0, checked.stderr)
  t.match(checked.stderr, /Each is looked up/)
  t.match(checked.stderr, /4 500 events stored/)
  t.equal(await countOf(first), 4_500, 'found, and not sent again')

  await killed(empty)
  t.equal((await run(empty)).code, 0)
  t.equal(await countOf(empty), 2_500, 'not found, and sent')

  const body = await (
    await fetch(`${first.url}/public/events?limit=1&page=3001`, { headers: { 'x-api-key': SECRET_KEY } })
  ).text()
  const [event = '{}'] = elementTexts(memberText(body, 'events') ?? '[]')
  const id = JSON.parse(memberText(event, 'eventId') ?? '""')
  const edit = await fetch(`${first.url}/public/events/${id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json', 'x-api-key': SECRET_KEY },
    body: '{"properties":{"edited":true}}',
  })
  t.equal(edit.status, 200)
  await killed(first)
  t.match(await run(first), { code: 1, stderr: /of the \d+ events from line \d+ on are stored; others were changed/ })
  t.match(await run(first, '--unanswered', 'skip'), { code: 0, stderr: /4 500 events stored/ })
  t.equal(await countOf(first), 4_500)
})
