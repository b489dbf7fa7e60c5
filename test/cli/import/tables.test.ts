import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { realEvents, temporaryFolder } from '../../helper.js'
import { essence } from '../essence.js'
import { projectOfCommands } from '../project-of-commands.js'

t.test('imports of tables', async (t) => {
  const folder = await temporaryFolder(t)
  const [{ call, run, projectId }, other, back] = [
    await projectOfCommands(),
    await projectOfCommands(),
    await projectOfCommands(),
  ]
  /** The counts of requests by their statuses. */
  const readRequests = async () => {
    const { body } = await call('GET', '/metrics')
    return body.split('\n').filter((line) => line.startsWith('tallyhouse_http_requests_total{'))
  }
  const refused = (requests: string[]) => requests.filter((line) => /status="4/.test(line))
  const before = refused(await readRequests())
  const importAs = async (name: string, text: string, ...args: string[]) => {
    const path = join(folder, name)
    await writeFile(path, text)
    return await run(['import', ...args, path])
  }
  const stored = async (event: string): Promise<Record<string, unknown>[]> => {
    const { stdout } = await run(['export', '--event', event])
    const lines = stdout.trimEnd().split('\n').filter(Boolean)
    return lines.map((line) => JSON.parse(line))
  }

  t.test('3 000 rows with inch marks: all are stored, and the price is a number', async (t) => {
    const rows = Array.from({ length: 3000 }, (_, i) => `inch,u${i},${i % 2 ? '"27 inch' : 'x'},1.50\n`)
    const { code, stderr } = await importAs('inch.csv', `event,distinct_id,size,price\n${rows.join('')}`)
    t.match({ code, stderr }, { code: 0, stderr: /3 000 events stored, 0 rejected/ })
    t.match(stderr, /price is numbers; all others are text/)
    const events = await stored('inch')
    t.equal(events.length, 3000)
    const prices = events.map(({ properties }) => (properties as { price: unknown }).price)
    t.equal(
      prices.reduce<number>((sum, price) => sum + (typeof price === 'number' ? price : Number.NaN), 0),
      4500,
    )
  })

  t.test('stored, rejected and skipped rows are all rows, and the exit code says so', async (t) => {
    const rows = ['sum,u,1', 'sum,u,"2" in,3', 'sum,u', ',,', 'sum,,1', 'sum,u,x', 'sum,u,4,,', 'sum,u,"a\nb"']
    const { code, stderr } = await importAs('sum.csv', `event,distinct_id,n\n${rows.join('\n')}\n`, '--types', 'n=text')
    t.equal(code, 1)
    t.match(stderr, /4 events stored, 3 rejected, 1 skipped/)
    t.equal((await stored('sum')).length, 4)
    const rejects = (await readFile(join(folder, 'sum.csv.rejects.ndjson'), 'utf8')).trimEnd().split('\n')
    t.strictSame(
      rejects.map((line) => JSON.parse(line).line),
      [3, 4, 6],
    )
  })

  t.test('types come from the sample, misfits are counted, and types can be set', async (t) => {
    const late = `${'typed,u,1,01234,yes\n'.repeat(1500)}typed,u,many,99999,no\n`
    const first = await importAs('typed.csv', `event,distinct_id,n,zip,paid\n${late}`, '--types', 'paid=boolean')
    t.match(first, { code: 0, stderr: /1 cell of n is not numbers and stays text/ })
    const events = await stored('typed')
    t.strictSame(events.at(0)?.properties, { n: 1, zip: '01234', paid: true })
    t.strictSame(events.at(-1)?.properties, { n: 'many', zip: '99999', paid: false })
    const given = await importAs('given.csv', 'event,distinct_id,n\ngiven,u,1\ngiven,u,many\n', '--types', 'n=number')
    t.match(given, { code: 1, stderr: /1 event stored, 1 rejected/ })
    t.match(await readFile(join(folder, 'given.csv.rejects.ndjson'), 'utf8'), /many.*column \\"n\\" is not a number/)
  })

  t.test('columns may have the names of members that every object has', async (t) => {
    const names = ['constructor', '__proto__', 'toString']
    const late = `${'odd,u,1,2,3\n'.repeat(1500)}odd,u,x,y,z\n`
    const { code, stderr } = await importAs(
      'odd.csv',
      `event,distinct_id,${names}\n${late}`,
      '--types',
      'toString=text',
    )
    t.equal(code, 0, stderr)
    for (const name of names.slice(0, 2)) t.match(stderr, `1 cell of ${name} is not numbers and stays text`)
    const [first] = await stored('odd')
    t.equal(JSON.stringify(first?.properties), '{"constructor":1,"__proto__":2,"toString":"3"}')
  })

  t.test('names of columns do not reach the terminal as commands', async (t) => {
    const table = (columns: string) => `event,distinct_id,${columns}\n${'plain,u,1\n'.repeat(1500)}plain,u,x\n`
    const imported = await importAs('controls.csv', table('\u001b[2Jn'))
    t.match(imported, { code: 0, stderr: /Columns: \uFFFD\[2Jn is numbers.*1 cell of \uFFFD\[2Jn is not numbers/s })
    const shown = await importAs('shown.csv', table('\u001b[2Jn'), '--dry-run')
    t.match(shown, { code: 0, stdout: /with 3 columns: event, distinct_id, \uFFFD\[2Jn\.\n/ })
    const refused = await importAs('refused.csv', table('\u001b[2Jn,\u001b[2Jn'))
    t.match(refused, { code: 1, stderr: /two columns with the name "\uFFFD\[2Jn"/ })
    for (const { stdout, stderr } of [imported, shown, refused]) t.notOk(`${stdout}${stderr}`.includes('\u001b'))
  })

  t.test('a resumed import keeps its guesses', async (t) => {
    const head = 'event,distinct_id,n,at\n'
    const rows = Array.from({ length: 3000 }, (_, i) => `again,u,${i},170000${String(i).padStart(4, '0')}\n`)
    const args = ['--map', 'timestamp=at']
    t.equal((await importAs('again.csv', head + rows.join(''), ...args)).code, 0)
    const path = join(folder, 'again.csv')
    const state = JSON.parse(await readFile(`${path}.import.json`, 'utf8'))
    t.match(state.guesses, { time: 's', types: [['n', { name: 'number', isGiven: false }]] })
    // Simulates a kill after the first batch, with other guesses in the state.
    const offset = Buffer.byteLength(head + rows.slice(0, 1000).join(''))
    const done = { ...state.done, batches: 1, offset, line: 1001, accepted: 1000 }
    const sent = [{ upTo: 64, at: new Date().toISOString() }]
    const guesses = { ...state.guesses, types: [] }
    await writeFile(
      `${path}.import.json`,
      JSON.stringify({ ...state, importId: 'another', guesses, done, sent, finishedAt: null }),
    )
    const { code, stderr } = await run(['import', ...args, path])
    t.equal(code, 0, stderr)
    const events = await stored('again')
    t.equal(events.length, 5000)
    t.strictSame(events.at(0)?.properties, { n: 0 })
    t.strictSame(events.at(-1)?.properties, { n: '2999' })
    t.equal(events.at(-1)?.timestamp, 1_700_002_999_000)
  })

  t.test('times are read in a zone, or refused by name', async (t) => {
    const times: Record<string, [texts: string[], ms: number, ...args: string[]]> = {
      seconds: [['1704164645'], 1704164645000],
      milliseconds: [['1704164645000'], 1704164645000],
      ga4: [['1704164645123456'], 1704164645123],
      nanoseconds: [['1704164645123456789'], 1704164645123],
      bigquery: [['2024-01-02 03:04:05.123456 UTC'], 1704164645123],
      iso: [['2024-01-02T03:04:05Z'], 1704164645000],
      berlin: [['2024-01-02 04:04:05'], 1704164645000, '--time-zone', 'Europe/Berlin'],
    }
    for (const [name, [texts, ms, ...args]] of Object.entries(times)) {
      const rows = texts.map((text) => `${name},u,${text}\n`).join('')
      t.match(await importAs(`${name}.csv`, `event,distinct_id,timestamp\n${rows}`, ...args), { code: 0 }, name)
      t.equal((await stored(name))[0]?.timestamp, ms, name)
    }
    const mixed = 'event,distinct_id,timestamp\nmixed,u,1704164645000\nmixed,u,soon\nmixed,u,\nmixed,u,1.70E+12\n'
    t.match(await importAs('mixed.csv', mixed), { code: 1, stderr: /1 event stored, 3 rejected/ })
    const rejects = (await readFile(join(folder, 'mixed.csv.rejects.ndjson'), 'utf8')).trimEnd().split('\n')
    for (const [i, reason] of [/soon/, /no time/, /1\.70E\+12 is in scientific notation/].entries()) {
      t.match(JSON.parse(rejects[i] ?? '{}').reason, reason)
    }
    const json = '{"event":"json","distinct_id":"u","timestamp":1704164645,"properties":{"a": 1.0}}\n'
    t.match(await importAs('json.ndjson', json), { code: 0, stderr: /seconds since 1970/ })
    t.equal((await stored('json'))[0]?.timestamp, 1704164645000)
  })

  t.test('rows without an event name get that of --event', async (t) => {
    const views = 'user,path,event\nu1,/,\nu2,/a,named\n'
    t.match(await importAs('views.csv', views, '--map', 'distinct_id=user', '--event', 'viewed'), { code: 0 })
    t.strictSame(
      (await stored('viewed')).map(({ properties }) => properties),
      [{ path: '/' }],
    )
    t.equal((await stored('named')).length, 1)
    const none = 'user,path\nu1,/\n'
    t.match(await importAs('none.csv', none, '--map', 'distinct_id=user', '--event', 'viewed'), { code: 0 })
    t.equal((await stored('viewed')).length, 2)
  })

  t.test('CSV from export is imported back byte for byte', async (t) => {
    const lines = (await realEvents()).slice(0, 1500)
    lines.push(
      '{"event":"odd, \\"name\\"","distinct_id":"007","timestamp":1700000000000,"properties":{ "a" : 1.0, "b":"x\\ny" },"insert_id":"08","session_id":"007","context":{"browser":"\\"B, 1\\"","device":"tv","bot":true}}',
    )
    const source = join(folder, 'source.ndjson')
    await writeFile(source, `${lines.join('\n')}\n`)
    t.equal((await other.run(['import', source])).code, 0)
    const { stdout } = await other.run(['export', '--format', 'csv'])
    t.match(await back.run(['import', '-'], stdout), { code: 0, stderr: /1 501 events stored/ })
    const exported = await back.run(['export'])
    t.strictSame(exported.stdout.trimEnd().split('\n').map(essence), lines.map(essence))
  })

  t.test('commands leave no 4xx in the metrics', async (t) => {
    t.match((await call('GET', '/public/key')).json(), { key: { kind: 'secret', project: projectId } })
    const requests = await readRequests()
    t.ok(requests.some((line) => line.includes('/public/key') && line.includes('"200"')))
    t.strictSame(refused(requests), before)
    t.strictSame(
      (await readdir(folder)).filter((name) => name.endsWith('.lock')),
      [],
    )
  })
})
