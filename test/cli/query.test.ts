import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder, until } from '../helper.js'
import { type ProjectOfCommands, projectOfCommands } from './project-of-commands.js'

const START = Date.parse('2026-04-20T00:00:00Z')
const RANGE = ['--from', '2026-04-20', '--to', '2026-04-22']

const events = [
  ['view', 'ada', 0, { plan: '=1+1' }],
  ['buy', 'ada', 90_000, { price: 9.5 }],
  ['view', 'bob', 86_400_000, { plan: 'a "b", c' }],
  ['view', 'cyd', 86_400_001, {}],
].map(([event, distinct_id, at, properties]) => ({ event, distinct_id, timestamp: START + Number(at), properties }))

let filled: Promise<ProjectOfCommands> | undefined

async function fill(): Promise<ProjectOfCommands> {
  const project = await projectOfCommands()
  await project.call('POST', '/public/track/batch', { events })
  return project
}

async function query(args: string[], stdin = '') {
  filled ??= fill()
  return (await filled).run(['query', ...args], stdin)
}

async function table(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await query([...args, ...RANGE, '--format', 'table'])
  if (code !== 0) throw new Error(stderr)
  return stdout.trimEnd().split('\n')
}

t.test('query prints a table for each kind of question', async (t) => {
  const answers = await Promise.all([
    table('--event', 'view', '--event', 'buy', '--metric', 'users'),
    table('--steps', 'view,buy', '--window', '1h'),
    table('--start', 'view', '--return', 'buy', '--intervals', '2'),
    table('--start', 'view', '--steps', '1'),
  ])
  t.strictSame(answers, [
    [
      'at                         view (unique users)  buy (unique users)',
      '-------------------------  -------------------  ------------------',
      '2026-04-20T00:00:00+00:00                    1                   1',
      '2026-04-21T00:00:00+00:00                    2                   0',
      'total                                        3                   1',
    ],
    [
      'step  event  users  of first  of previous  median time  mean time',
      '----  -----  -----  --------  -----------  -----------  ---------',
      '   1  view       3   100.0 %      100.0 %            -          -',
      '   2  buy        1    33.3 %       33.3 %      1.5 min    1.5 min',
    ],
    [
      'cohort      size    day 0   day 1',
      '----------  ----  -------  ------',
      '2026-04-20     1  100.0 %   0.0 %',
      '2026-04-21     2    0.0 %  0.0 %*',
      'average        -   33.3 %   0.0 %',
    ],
    [
      'step  event  users',
      '----  -----  -----',
      '   0  view       3',
      '   1  buy        1',
      '',
      'step  from  to   users',
      '----  ----  ---  -----',
      '   0  view  buy      1',
    ],
  ])
})

t.test('questions are options, JSON, a file or standard input; answers are CSV or JSON', async (t) => {
  const csv = await query([
    '--event',
    'view',
    '--breakdown',
    'properties.plan',
    '--interval',
    'none',
    '--format',
    'csv',
    ...RANGE,
  ])
  t.equal(
    csv.stdout,
    'series,properties.plan,at,value,complete\r\n' +
      '0,=1+1,2026-04-20T00:00:00+00:00,1,true\r\n' +
      '0,"a ""b"", c",2026-04-20T00:00:00+00:00,1,true\r\n' +
      '0,,2026-04-20T00:00:00+00:00,1,true\r\n',
  )
  const of = { kind: 'series', series: [{ event: 'view' }], from: START, to: START + 1 }
  const question = JSON.stringify({ kind: 'users', of, cell: { series: 0 } })
  const file = join(await temporaryFolder(t), 'question.json')
  await writeFile(file, question)
  const asked = await Promise.all([query([question]), query([file]), query(['-'], question)])
  for (const { code, stdout } of asked) {
    const { results, kind } = JSON.parse(stdout)
    t.strictSame([code, kind, results.users, results.count], [0, 'users', ['ada'], 1])
  }
})

t.test('query explains what is wrong', async (t) => {
  const [nothing, both, text, refused] = await Promise.all([
    query([]),
    query(['{}', '--event', 'a']),
    query(['{"kind"']),
    query(['--event', 'a', '--metric', 'most', '--interval', 'year']),
  ])
  t.strictSame([nothing.code, both.code, text.code, refused.code], [2, 2, 2, 1])
  t.match(nothing.stderr, /--event NAME/)
  t.match(both.stderr, /--event belongs in the question/)
  t.match(text.stderr, /The question is not JSON/)
  t.match(refused.stderr, /^\/interval must be one of hour, .* \/series\/0\/metric must be one of events, /m)
})

t.test('query reports an unknown name with the answer', async (t) => {
  // On a slow machine the first answer may come before its warnings.
  const asked = await until('a warning', async () => {
    const asked = await query(['--event', 'veiw', ...RANGE, '--format', 'csv'])
    return asked.stderr !== '' && asked
  })
  t.match(asked, { code: 0, stderr: 'Warning: No event is called “veiw”. Did you mean “view”?\n' })
  const answer = await query(['--event', 'veiw', ...RANGE, '--format', 'json'])
  t.match(JSON.parse(answer.stdout), { warnings: [{ path: '/series/0/event' }] })
})
