import { until } from '../helper.js'
import { type Call, MONTH, REPEATABLE } from './contents.js'

/** Of each read, by its name: the text of the answer. */
export type Answers = Record<string, string>

const SIGNED_UP = { event: 'signed up' }
const BY_DAY = { ...MONTH, interval: 'day' }
const QUESTIONS: Record<string, object> = {
  series: { kind: 'series', series: [{ event: '*' }, { ...SIGNED_UP, metric: 'users' }], ...BY_DAY },
  sum: {
    kind: 'series',
    series: [{ event: '*', metric: 'sum', property: 'properties.price' }],
    ...{ ...MONTH, interval: 'none', breakdown: ['properties.nested.k'] },
  },
  profiles: { kind: 'series', series: [SIGNED_UP], where: ['set', 'user.plan'], ...MONTH, interval: 'none' },
  funnel: { kind: 'funnel', steps: [{ event: 'viewed' }, SIGNED_UP, { event: 'paid' }], window: '30d', ...MONTH },
  retention: { kind: 'retention', start: { event: 'viewed' }, return: { event: '*' }, unit: 'day', ...MONTH },
  paths: { kind: 'paths', start: { event: 'viewed' }, steps: 2, window: '2h', ...MONTH },
  sessions: { kind: 'series', series: [{ event: '$session' }], ...MONTH, interval: 'none' },
  users: {
    kind: 'users',
    of: { kind: 'series', series: [SIGNED_UP], ...MONTH, interval: 'none' },
    cell: { series: 0 },
  },
  browsers: {
    kind: 'series',
    series: [{ event: '$pageview' }],
    ...{ from: '2026-01-01', interval: 'none', breakdown: ['context.browser', 'page.source'] },
  },
}
/** The newest events have the day on which the store was made: the range of this one ends today, and is not compared. */
const LASTS_UNTIL_TODAY = ['browsers']

const READS = [
  '/public/events?limit=10000',
  '/public/events?limit=100&order=desc&event=signed%20up',
  '/public/export?format=ndjson',
  '/public/export?format=csv',
  '/public/users?limit=100',
  '/public/users?order=last_seen&limit=100',
  '/public/users/ada',
  '/public/users/visitor-1',
  '/public/users/bob',
  '/public/users/ada/aliases',
  '/public/users/ada/export',
  '/public/sessions?limit=100',
  '/public/sessions/s-1',
  '/public/schema/events',
  '/public/schema/properties?event=signed%20up',
  '/public/schema/values?field=properties.plan',
  '/public/questions',
  '/public/questions/sign-ups',
  '/public/boards',
  '/public/boards/overview',
  '/public/project',
  '/public/keys',
  '/public/audit',
  '/public/dead-letters',
  '/public/ids',
]

/** Everything that a store says, without what depends on the time. */
export async function ask(call: Call, day: string): Promise<Answers> {
  await until('all that was accepted', async () => {
    return JSON.parse(await call('GET', '/public/events?limit=1')).pending === 0
  })
  const answers: Answers = {}
  for (const path of READS) answers[path] = withoutTimes(await call('GET', path))
  for (const [name, question] of Object.entries(QUESTIONS)) {
    const answer = withoutTimes(await call('POST', '/public/query', question))
    answers[name] = LASTS_UNTIL_TODAY.includes(name) ? JSON.stringify(JSON.parse(answer).results) : answer
  }
  const { days } = JSON.parse(await call('GET', `/public/usage?from=${day}&to=${day}`))
  answers.usage = JSON.stringify(days.map(({ read_seconds: _, ...rest }: { read_seconds: number }) => rest))
  return answers
}

function withoutTimes(text: string): string {
  return text
    .replace(/"elapsed_ms":[\d.]+/g, '"elapsed_ms":0')
    .replace(/"(last_used|last_refused)":(?:null|"[^"]*")/g, '"$1":null')
}

/** What requests that were accepted before the upgrade get when they are sent again. */
export async function repeat(call: Call): Promise<string[]> {
  const answers = []
  for (const { path, body, headers } of REPEATABLE) answers.push(await call('POST', path, body, headers))
  return answers
}
