import { until } from '../helper.js'
import { type Call, MONTH, type Request } from './contents.js'

/** A request and the text of its response. */
export interface Exchange extends Request {
  answer: string
}

const SIGNED_UP = { event: 'signed up' }
const BY_DAY = { ...MONTH, interval: 'day' }
const QUESTIONS = [
  { kind: 'series', series: [{ event: '*' }, { ...SIGNED_UP, metric: 'users' }], ...BY_DAY },
  {
    kind: 'series',
    series: [{ event: '*', metric: 'sum', property: 'properties.price' }],
    ...{ ...MONTH, interval: 'none', breakdown: ['properties.nested.k'] },
  },
  { kind: 'series', series: [SIGNED_UP], where: ['set', 'user.plan'], ...MONTH, interval: 'none' },
  { kind: 'funnel', steps: [{ event: 'viewed' }, SIGNED_UP, { event: 'paid' }], window: '30d', ...MONTH },
  { kind: 'retention', start: { event: 'viewed' }, return: { event: '*' }, unit: 'day', ...MONTH },
  { kind: 'paths', start: { event: 'viewed' }, steps: 2, window: '2h', ...MONTH },
  { kind: 'series', series: [{ event: '$session' }], ...MONTH, interval: 'none' },
  {
    kind: 'users',
    of: { kind: 'series', series: [SIGNED_UP], ...MONTH, interval: 'none' },
    cell: { series: 0 },
  },
  {
    kind: 'series',
    series: [{ event: '$pageview' }],
    ...{ ...MONTH, interval: 'none', breakdown: ['context.browser', 'page.source'] },
  },
]

const PATHS = [
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

/**
 * The requests to a store, which are kept with the responses: a later version may make more requests to its own stores.
 */
export function makeReads(day: string): Request[] {
  const usage = `/public/usage?from=${day}&to=${day}`
  const questions = QUESTIONS.map((body) => ({ method: 'POST', path: '/public/query', body: JSON.stringify(body) }))
  return [...[...PATHS, usage].map((path) => ({ method: 'GET', path })), ...questions]
}

/**
 * Waits until everything that was accepted is stored, and makes requests. Leaves out everything in the responses that
 * depends on the time.
 */
export async function ask(call: Call, requests: readonly Request[]): Promise<Exchange[]> {
  await until('all accepted data', async () => {
    return JSON.parse(await call('GET', '/public/events?limit=1')).pending === 0
  })
  return await send(call, requests)
}

/** Sends requests one after another. */
export async function send(call: Call, requests: readonly Request[]): Promise<Exchange[]> {
  const exchanges = []
  for (const request of requests) {
    const answer = await call(request.method, request.path, request.body, request.headers)
    exchanges.push({ ...request, answer: withoutTimes(answer) })
  }
  return exchanges
}

function withoutTimes(text: string): string {
  return text
    .replace(/"(elapsed_ms|read_cpu_seconds|stored_bytes|used)":[\d.]+/g, '"$1":0')
    .replace(/"(last_used|last_refused)":(?:null|"[^"]*")/g, '"$1":null')
}
