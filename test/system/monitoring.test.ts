import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ERROR_STATUS } from '../../src/contract/errors.js'
import { settingsFor, startApp } from '../helper.js'

/** Prometheus itself adds it for every target. */
const OF_PROMETHEUS = new Map([['up', new Set(['job', 'instance'])]])
/** On every sample, from the scrape; `process` is added if WORKERS is above 1. */
const OF_TARGET = ['job', 'instance', 'process']
const WORDS = new Set(['by', 'or', 'and', 'unless'])

async function file(name: string): Promise<string> {
  return await readFile(fileURLToPath(new URL(`../../docs/monitoring/${name}`, import.meta.url)), 'utf8')
}

/** The metrics that a query reads, with all labels that it names. */
function namesIn(query: string): { metrics: string[]; labels: string[] } {
  const labels: string[] = []
  const rest = query
    .replace(/"[^"]*"/g, '""')
    .replace(/\bby \(([^)]*)\)/g, (_, list: string) => {
      labels.push(...list.split(',').map((label) => label.trim()))
      return ''
    })
    .replace(/\{([^}]*)\}/g, (_, list: string) => {
      labels.push(...list.split(',').map((matcher) => matcher.replace(/[=!~]+""/, '').trim()))
      return ''
    })
    .replace(/\[[^\]]*\]/g, '')
  const metrics = [...rest.matchAll(/[a-zA-Z_]\w*(?!\w)(?!\s*\()/g)].map(([name]) => name)
  return { metrics: metrics.filter((name) => !WORDS.has(name)), labels }
}

t.test('the queries of the dashboard and the alerts read existing metrics', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), LANES: '2', WRONG_KEY_LIMIT: '1' }
  // Quotas are checked at the start, and then each minute.
  const earlier = await startApp(t, env)
  await earlier.call('PATCH', '/public/project', { quotas: { events_per_day: { limit: 5, mode: 'soft' } } })
  await earlier.app.close()
  const { app, call, browser } = await startApp(t, env)
  // Metrics labelled by route appear with the first request.
  await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })
  await browser('/public/sessions/start', { distinct_id: 'u', session_id: 's' })
  // This metric appears with the first refusal by a limit.
  for (let i = 0; i < 2; i++) await call('GET', '/public/events', undefined, { 'x-api-key': `unknown-key-number-${i}` })
  // This one appears with the first stored block.
  await call('GET', '/public/events')
  const text = (await app.inject({ url: '/metrics' })).body
  const known = new Map(OF_PROMETHEUS)
  for (const [, name = '', list = ''] of text.matchAll(/^([a-z]\w*)(?:\{(.*)\})? \S+$/gm)) {
    const labels = known.get(name) ?? new Set(OF_TARGET)
    // They have this label if there are several shards.
    if (name.startsWith('tallyhouse_store_')) labels.add('shard')
    for (const [, label = ''] of list.matchAll(/([a-z_]+)="/g)) labels.add(label)
    known.set(name, labels)
  }

  const dashboard: { panels: { title: string; targets?: { expr: string; legendFormat: string }[] }[] } = JSON.parse(
    await file('dashboard.json'),
  )
  const ofDashboard = dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({ title, expr, legend: legendFormat })),
  )
  const ofAlerts = [...(await file('alerts.yml')).matchAll(/alert: (\w+)\n\s+expr: (.+)\n[\s\S]*?summary: (.+)/g)]
  const alerts = ofAlerts.map(([, title = '', expr = '', summary = '']) => ({ title, expr, legend: summary }))
  t.ok(ofDashboard.length > 20)
  t.ok(alerts.length >= 8)

  for (const { title, expr, legend } of [...ofDashboard, ...alerts]) {
    const { metrics, labels } = namesIn(expr)
    t.ok(metrics.length > 0, `${title}: ${expr}`)
    for (const name of metrics) t.ok(known.has(name), `${title} reads ${name}`)
    const shown = [...legend.matchAll(/\{\{\s*(?:\$labels\.)?([a-z]+)\s*\}\}/g)].map(([, label = '']) => label)
    for (const label of [...labels, ...shown]) {
      t.ok(
        metrics.every((name) => known.get(name)?.has(label)),
        `${title}: ${metrics} have ${label}`,
      )
    }
    const opened = [...expr].filter((letter) => letter === '(').length
    t.equal([...expr].filter((letter) => letter === ')').length, opened, `${expr} is balanced`)
  }
})

t.test('the manual covers every alert and every error', async (t) => {
  const manual = await file('../monitoring.md')
  const alerts = [...(await file('alerts.yml')).matchAll(/alert: (\w+)/g)].map(([, name = '']) => name)
  t.ok(alerts.length >= 8)
  for (const name of [...alerts, ...Object.keys(ERROR_STATUS)]) t.ok(manual.includes(`\`${name}\``), name)
})

t.test('a misspelled query is detected', async (t) => {
  t.strictSame(namesIn('sum by (le, a) (rate(x_total{b=~"c.", d!=""}[5m])) / 2 > 0 or absent(y)'), {
    metrics: ['x_total', 'y'],
    labels: ['le', 'a', 'b', 'd'],
  })
})
