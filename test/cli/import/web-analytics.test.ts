import { copyFile, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { temporaryFolder } from '../../helper.js'
import { projectOfCommands } from '../project-of-commands.js'

const pathOf = (file: string) => fileURLToPath(new URL(join('../../data/vendors', file), import.meta.url))

t.test('page views of other products are stored once, with their visits', async (t) => {
  const { call, run } = await projectOfCommands()
  const folder = await temporaryFolder(t)
  const count = async () => {
    const question = {
      kind: 'series',
      series: [{ event: '*' }],
      interval: 'none',
      from: '2024-03-01',
      to: '2024-04-02',
    }
    return (await call('POST', '/public/query', question)).json().results[0].total
  }
  const importFile = async (vendor: string, path: string) => {
    await rm(`${path}.import.json`, { force: true })
    return await run(['import', '--from', vendor, path])
  }
  const stories = [
    [
      'umami',
      'umami.csv',
      { stored: 5, session: '11111111-1111-5111-8111-000000000001', events: 2, device: 'desktop', country: 'AT' },
    ],
    ['matomo', 'matomo.json', { stored: 9, session: '12', events: 8, device: 'mobile', country: 'AT' }],
    [
      'ga4',
      'ga4.ndjson',
      { stored: 6, session: '1234567890.1711843190.1711843190', events: 4, device: 'desktop', country: 'TR' },
    ],
  ] as const
  let total = 0
  for (const [vendor, file, { stored, session, events, device, country }] of stories) {
    const path = join(folder, file)
    await copyFile(pathOf(file), path)
    const first = await importFile(vendor, path)
    t.match(first.stderr, `${stored} events stored`, vendor)
    total += stored
    t.equal(await count(), total)
    const visit = (await call('GET', `/public/events?session_id=${session}`)).json().events
    t.equal(visit.length, events, `a visit of ${vendor}`)
    t.match(visit[0].context, { device, country }, 'with its context')
    const again = await importFile(vendor, path)
    t.match(again.stderr, `0 events stored, ${stored} already stored`, `${vendor} again`)
    t.equal(await count(), total)
  }
  const { aliases } = (await call('GET', '/public/users/customer-7/aliases')).json()
  t.match(JSON.stringify(aliases), 'a1b2c3d4e5f60718', 'a visitor who was recognized is one user')

  const totals = join(folder, 'plausible.zip')
  await copyFile(pathOf('plausible.zip'), totals)
  const refused = await importFile('plausible', totals)
  t.match(refused, { code: 1, stderr: /daily totals, which cannot become events/ })
  t.equal(await count(), total)
})

t.test('an import of visits that is interrupted between two visits stores all of them', async (t) => {
  const { call, run } = await projectOfCommands()
  const path = join(await temporaryFolder(t), 'visits.json')
  const [visit] = JSON.parse(await readFile(pathOf('matomo.json'), 'utf8'))
  const visits = Array.from({ length: 400 }, (_, idVisit) => ({ ...visit, idVisit }))
  const text = JSON.stringify(visits)
  // The end is missing, as in a file that is still being written.
  await writeFile(path, text.slice(0, text.length / 2))
  const cut = await run(['import', '--from', 'matomo', path])
  t.equal(cut.code, 1)
  await writeFile(path, text)
  await rm(`${path}.import.json`, { force: true })
  const rest = await run(['import', '--from', 'matomo', path])
  t.match(rest, { code: 0, stderr: /already stored, 0 rejected/ })
  const question = { kind: 'series', series: [{ event: '*' }], interval: 'none', from: '2024-03-01', to: '2024-04-02' }
  const answer = await call('POST', '/public/query', question)
  t.equal(answer.json().results[0].total, 400 * visit.actionDetails.length)
})
