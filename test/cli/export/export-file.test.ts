import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { counted } from '../../../src/cli/progress.js'
import { memberText } from '../../../src/json/texts.js'
import { openStore } from '../../../src/store/open.js'
import { realEvents, temporaryFolder, until } from '../../helper.js'
import { sharedApp } from '../../shared-app.js'
import { followCommand, runProcess, startCommand } from '../command-line.js'
import { essence } from '../essence.js'
import { ownCertificate, WITHOUT_OPENSSL } from '../own-certificate.js'
import { projectOfCommands } from '../project-of-commands.js'

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

/** A proxy that stalls an export after this many bytes, so that it is killed in the middle. */
async function stallingWay(t: Test, url: string) {
  const way = { url: '', mostBytes: Number.POSITIVE_INFINITY }
  const server = createServer((asked, reply) => {
    const { method, headers, url: path = '' } = asked
    const onward = request(url + path, { method, headers }, async (answer) => {
      reply.writeHead(answer.statusCode ?? 0, answer.headers)
      let left = path.startsWith('/public/export') ? way.mostBytes : Number.POSITIVE_INFINITY
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        reply.write(chunk.subarray(0, left))
        left -= chunk.length
        if (left <= 0) return void (await once(reply, 'close'))
      }
      reply.end()
    })
    asked.pipe(onward)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  way.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return way
}

t.test('export writes the imported events', async (t) => {
  const { url, env, call, run } = await projectOfCommands()
  const folder = await temporaryFolder(t)
  const to = (...args: string[]) => ['export', ...args]
  const lines = (await realEvents()).map((line, i) => {
    const copy = i % 4
    return line.replace(/}$/, `, "copy":${copy}.0${copy === 0 ? '' : `, "session_id":"visit \\"${copy}\\""`} }`)
  })
  const imported = await run(['import', '--parallel', '1'], lines.join('\n'))
  t.equal(imported.code, 0, imported.stderr)
  t.match(imported.stderr, /Standard input cannot be read again/)

  const whole = await run(to())
  t.equal(whole.code, 0, whole.stderr)
  t.ok(
    linesOf(whole.stdout).map(essence).join('\n') === lines.map(essence).join('\n'),
    'byte for byte, in the same order',
  )

  t.test('an export that was killed resumes to the same file', async (t) => {
    const path = join(folder, 'events.ndjson')
    const way = await stallingWay(t, url)
    const to = (...args: string[]) => ['export', '--url', way.url, ...args]
    way.mostBytes = 400_000
    for (let kills = 0; kills < 2; kills++) {
      const child = startCommand(to('--output', path), env)
      const ended = once(child, 'exit')
      const rows = async () => JSON.parse(await readFile(`${path}.export.json`, 'utf8').catch(() => '{}')).rows ?? 0
      const before = await rows()
      await until('some pages', async () => (await rows()) > before)
      child.kill('SIGKILL')
      await ended
    }
    way.mostBytes = Number.POSITIVE_INFINITY
    t.ok((await readFile(path)).length < whole.stdout.length, 'it was killed in the middle')
    // Simulates a kill between writing a page and recording it.
    await writeFile(path, 'half a page', { flag: 'a' })
    const last = await run(to('--output', path))
    t.equal(last.code, 0, last.stderr)
    t.match(last.stderr, /resuming after/)
    t.ok((await readFile(path, 'utf8')) === whole.stdout, 'the same file')
    const again = await run(to('--output', path))
    t.match(again, { code: 0, stderr: /was exported at/ })
    t.match(await run(to('--output', path, '--format', 'csv')), {
      code: 1,
      stderr: /started with another --format/,
    })
    const other = join(folder, 'precious')
    await writeFile(other, 'x')
    t.match(await run(to('--output', other)), { code: 1, stderr: /exists already and is not overwritten/ })
    t.equal(await readFile(other, 'utf8'), 'x')
  })

  t.test('an output that another process is writing is not touched', async (t) => {
    const path = join(folder, 'shared.ndjson')
    const way = await stallingWay(t, url)
    const args = ['export', '--url', way.url, '--output', path]
    way.mostBytes = 400_000
    const first = followCommand(args, env)
    const rows = async () => JSON.parse(await readFile(`${path}.export.json`, 'utf8').catch(() => '{}')).rows ?? 0
    await until('some pages', async () => (await rows()) > 0)
    way.mostBytes = Number.POSITIVE_INFINITY
    const refusal = `Another process is exporting to ${path}. Wait until it has finished.\n`
    t.match(await run(args), { code: 1, stderr: refusal })
    t.equal(await first.end(), 1)
    t.match(await run(args), { code: 0, stderr: /resuming after/ }, 'the lock is released')
    t.ok((await readFile(path, 'utf8')) === whole.stdout, 'the same file')
  })

  t.test('export notices that a part of its output is missing', async (t) => {
    const few = ['--event', 'prerelease published', '--distinct-id', 'fastify']
    for (const format of ['ndjson', 'parquet']) {
      const path = join(folder, `shortened-${format}`)
      const again = () => run(to('--format', format, '--output', path, ...few))
      t.match(await again(), { code: 0, stderr: /exported to/ })
      const file = format === 'parquet' ? join(path, 'events-000001.parquet') : path
      const state = JSON.parse(await readFile(`${path}.export.json`, 'utf8'))
      await truncate(file, 100)
      t.match(await again(), { code: 1, stderr: /has 100 bytes/ }, 'of one that is finished')
      await writeFile(`${path}.export.json`, JSON.stringify({ ...state, finishedAt: null }))
      t.match(await again(), { code: 1, stderr: /has 100 bytes/ }, 'of one that resumes')
      await rm(file)
      t.match(await again(), { code: 1, stderr: /has 0 bytes/ })
    }
  })

  t.test('over TLS, with a certificate that is trusted', { skip: WITHOUT_OPENSSL }, async (t) => {
    const own = await ownCertificate(t)
    const target = url
    const server = createTlsServer(own, ({ method, headers, url }, reply) => {
      const onward = request(target + url, { method, headers }, (answer) => {
        reply.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(reply)
      })
      onward.end()
    }).listen(0)
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    {
      const args = ['export', '--url', `https://localhost:${port}`]
      const trusted = await runProcess(args, '', { ...env, NODE_EXTRA_CA_CERTS: own.path })
      t.equal(trusted.code, 0, trusted.stderr)
      t.ok(trusted.stdout === whole.stdout, 'the same bytes')
      t.match(await run(args), { code: 1, stdout: '', stderr: /its TLS certificate is not accepted/ })
    }
    t.match(await run(['export', '--url', `http://localhost:${port}`]), { code: 1, stderr: /cannot be reached/ })
  })

  t.test('an address with a password is refused', async (t) => {
    const secret = await run(['export', '--url', url.replace('//', '//ada:secret@')])
    t.match(secret, { code: 2, stderr: /must not have a user or a password/ })
  })

  t.test('--session-id writes the events of one session', async (t) => {
    const { code, stdout, stderr } = await run(to('--session-id', 'visit "2"'))
    t.equal(code, 0, stderr)
    const wanted = lines.filter((line) => line.includes('"copy":2.0'))
    t.ok(linesOf(stdout).map(essence).join('\n') === wanted.map(essence).join('\n'))
  })

  t.test('Parquet, as numbered files that are one table', async (t) => {
    const path = join(folder, 'parquet')
    const { code, stderr } = await run(to('--format', 'parquet', '--output', path, '--rows-per-file', '5000'))
    t.equal(code, 0, stderr)
    t.match(stderr, `${counted(lines.length, 'event')} exported`)
    const files = await readdir(path)
    t.equal(files.length, Math.ceil(lines.length / 5000))
    const { clickhouse, close } = await openStore((await sharedApp()).config)
    t.teardown(async () => {
      await clickhouse.command('DROP TABLE IF EXISTS exported')
      await close()
    })
    await clickhouse.command(
      'CREATE TABLE exported (eventId String, event String, distinct_id String, properties String, timestamp Float64) ENGINE = Memory',
    )
    for (const file of files.sort()) {
      const bytes = createReadStream(join(path, file))
      await clickhouse.insert('INSERT INTO exported FORMAT Parquet', bytes, {}, AbortSignal.timeout(60_000))
    }
    const rows = await clickhouse.rows<Record<string, string>>(
      'SELECT event, distinct_id, toString(timestamp) AS timestamp, properties FROM exported ORDER BY eventId',
    )
    const parts = (text: string) => [
      ...['event', 'distinct_id'].map((name) => JSON.parse(memberText(text, name) ?? '')),
      ...['timestamp', 'properties'].map((name) => memberText(text, name)),
    ]
    const shown = (rows: unknown[]) => rows.map((row) => JSON.stringify(row)).join('\n')
    t.ok(shown(rows.map((row) => Object.values(row))) === shown(lines.map(parts)), 'the same events in their order')
    t.match(await run(to('--format', 'parquet')), { code: 2, stderr: /Name a folder/ })
    t.match(await run(to('--rows-per-file', '5')), { code: 2, stderr: /needs --format parquet/ })
    t.match(await run(to('--format', 'parquet', '--output', path, '--rows-per-file', '0')), { code: 2 })
  })

  t.test('--since adds only later events', async (t) => {
    const cursor = /--since (\S+)/.exec(whole.stderr)?.[1] ?? ''
    const nothing = await run(to('--since', cursor))
    t.match(nothing, { code: 0, stdout: '' })
    t.match(nothing.stderr, cursor, 'the cursor stays')
    const name = 'later'
    for (const event of [{ distinct_id: 'ada' }, { distinct_id: 'grace', timestamp: 5 }]) {
      t.equal((await call('POST', '/public/track', { event: name, ...event })).statusCode, 200)
    }
    const later = await run(to('--since', cursor))
    t.strictSame(
      linesOf(later.stdout).map((line) => JSON.parse(line).distinct_id),
      ['ada', 'grace'],
    )
    const next = /--since (\S+)/.exec(later.stderr)?.[1] ?? ''
    t.match(await run(to('--since', next)), { code: 0, stdout: '' })
    const filtered = await run(to('--event', name, '--from', '1970-01-01T00:00:00Z', '--to', '6'))
    t.strictSame(
      linesOf(filtered.stdout).map((line) => JSON.parse(line).distinct_id),
      ['grace'],
    )
    t.match(await run(to('--since', 'nonsense')), { code: 2, stderr: /must be a cursor/ })
    t.match(await run(to('--output', 'events.ndjson.gz')), { code: 2, stderr: /not compressed/ })
  })
})
