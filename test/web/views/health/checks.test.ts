import { readFile } from 'node:fs/promises'
import t from 'tap'
import { runChecks, summarize } from '../../../../src/web/views/health/checks.js'
import { LIMITS } from '../../../../src/web/views/health/limits-check.js'
import { parseMetrics } from '../../../../src/web/views/health/prometheus.js'
import type { Snapshot } from '../../../../src/web/views/health/snapshots.js'

const CALM: Record<string, number> = {
  process_start_time_seconds: 1000,
  tallyhouse_events_accepted_total: 500,
  'tallyhouse_events_refused_total{code="overloaded"}': 0,
  tallyhouse_journal_up: 1,
  tallyhouse_journal_entries: 0,
  tallyhouse_journal_bytes: 0,
  tallyhouse_journal_limit_bytes: 1000,
  tallyhouse_journal_oldest_seconds: 0,
  tallyhouse_store_up: 1,
  'tallyhouse_block_retries_total{reason="memory"}': 0,
  tallyhouse_data_dir_free_bytes: 50,
  tallyhouse_data_dir_size_bytes: 100,
  tallyhouse_dead_letters_total: 0,
  process_resident_memory_bytes: 1e8,
}

function reading(
  changes: Record<string, number> = {},
  { at = 2_000_000, notReady = null as string | null } = {},
): Snapshot {
  const lines = Object.entries({ ...CALM, ...changes }).map(([name, value]) => `${name} ${value}`)
  return { at, samples: parseMetrics(lines.join('\n')), notReady }
}

/** The check with a title. */
function part(title: string, ...readings: Snapshot[]) {
  const check = runChecks(readings).find((check) => check.title === title)
  if (!check) throw new Error(`there is no part ${title}`)
  return check
}

t.test('runChecks reports a calm service as good', async (t) => {
  const checks = runChecks([reading()])
  t.strictSame(summarize(checks), { level: 'good', verdict: 'Everything is working.' })
  for (const { title, advice } of checks) t.equal(advice, null, title)
  t.equal(part('Backlog', reading()).verdict, 'All accepted events are stored.')
})

t.test('runChecks computes rates between snapshots of the same processes', async (t) => {
  const before = reading()
  const now = reading({ tallyhouse_events_accepted_total: 560 }, { at: 2_005_000 })
  t.match(part('Intake', before, now).verdict, /12 per second/)
  const restarted = reading(
    { tallyhouse_events_accepted_total: 560, process_start_time_seconds: 1001 },
    { at: 2_005_000 },
  )
  t.equal(part('Intake', before, restarted).verdict, 'Events are being accepted.')
})

t.test('runChecks says how far the facts for questions are, if there are any', async (t) => {
  const of = (changes: Record<string, number>) =>
    new Map(part('Store', reading(changes)).facts).get('Facts for questions')
  t.equal(of({}), undefined)
  t.equal(of({ tallyhouse_facts_waiting_events: 0 }), 'complete; projects with few events need none')
  const shards = { 'tallyhouse_facts_waiting_events{shard="0"}': 2, 'tallyhouse_facts_waiting_events{shard="1"}': 3 }
  t.equal(of(shards), '5\u00a0events to copy; questions are slower until then')
  const isShort = { ...shards, 'tallyhouse_facts_short_of_disk{shard="1"}': 1 }
  t.equal(of(isShort), '5\u00a0events to copy once the disk of ClickHouse has room; questions are slower until then')
})

t.test('runChecks reports events with ignored fields while there are some', async (t) => {
  const name = 'tallyhouse_events_with_ignored_fields_total{project="shop"}'
  const [before, now] = [reading({ [name]: 1 }), reading({ [name]: 3 }, { at: 2_005_000 })]
  const { level, verdict, advice } = part('Intake', before, now)
  t.equal(level, 'watch')
  t.match(verdict, /^2\saccepted events .* had fields that are ignored\.$/)
  t.match(advice, /log names the fields/)
  t.equal(part('Intake', now, reading({ [name]: 3 }, { at: 2_010_000 })).level, 'good')
})

t.test('runChecks names the project and key kind that hit a limit', async (t) => {
  const reads = 'tallyhouse_limit_refusals_total{limit="reads",project="shop",kind="read"}'
  const wrong = 'tallyhouse_limit_refusals_total{limit="wrong_keys",project="",kind=""}'
  const before = reading({ [reads]: 3 })
  const now = reading({ [reads]: 15, [wrong]: 1 }, { at: 2_005_000 })
  const { level, verdict, advice, facts } = part('Limits', before, now)
  t.equal(level, 'watch')
  t.equal(
    verdict,
    'Refused in the last 5\u00a0s: project shop with a read key 12\u00a0times (too many reads at a time); a client without a known key once (unknown keys).',
  )
  t.match(advice, /Have clients read less in parallel, and retry\. .*WRONG_KEY_LIMIT.* revoke the key/)
  t.strictSame(facts[0], ['Refused since it started', '16'])
  t.strictSame(facts[1], ['reads, project shop with a read key', '12'])
  t.equal(part('Limits', now, reading({ [reads]: 15, [wrong]: 1 }, { at: 2_006_000 })).level, 'good')

  const shortened = reading({
    'tallyhouse_insert_id_window_seconds{project="shop",kind="page",lane="0"}': 7200,
    'tallyhouse_insert_id_window_seconds{project="shop",kind="page",lane="1"}': 3600,
    'tallyhouse_insert_id_window_seconds{project="shop",kind="secret"}': 700_000,
    'tallyhouse_journal_project_bytes{project="shop"}': 400,
  })
  t.equal(
    part('Limits', shortened).verdict,
    'Repeated events of project shop with its public and write keys are only recognized for 1\u00a0h. 40% of the journal belongs to project shop.',
  )
  t.match(part('Limits', shortened).advice, /^Send fewer/)
})

t.test('runChecks measures the disks of each shard separately', (t) => {
  const disk = (shard: number, free: number, size: number) => ({
    [`tallyhouse_store_disk_free_bytes{disk="default",shard="${shard}"}`]: free,
    [`tallyhouse_store_disk_size_bytes{disk="default",shard="${shard}"}`]: size,
  })
  const { level, verdict, facts } = part('Disk', reading({ ...disk(0, 100, 2000), ...disk(1, 150, 200) }))
  t.equal(level, 'bad')
  t.equal(verdict, '5% of the disk is free.')
  t.strictSame(
    facts.map(([name]) => name),
    ['DATA_DIR', 'ClickHouse, default, shard 0', 'ClickHouse, default, shard 1'],
  )
  t.end()
})

t.test('runChecks names the quotas that are nearly or fully used', async (t) => {
  const quota = (project: string, name: string, mode: string, used: number, process = '') => {
    const labels = `{project="${project}",quota="${name}",mode="${mode}"${process}}`
    return { [`tallyhouse_quota_used${labels}`]: used, [`tallyhouse_quota_limit${labels}`]: 1000 }
  }
  t.equal(part('Limits', reading(quota('shop', 'events_per_day', 'hard', 799))).level, 'good')
  const { level, verdict, advice } = part(
    'Limits',
    reading({
      ...quota('shop', 'events_per_month', 'hard', 870, ',process="0"'),
      ...quota('shop', 'events_per_month', 'hard', 860, ',process="1"'),
      ...quota('blog', 'events_per_day', 'hard', 1000),
      ...quota('wiki', 'stored_bytes', 'soft', 1500),
    }),
  )
  t.equal(level, 'watch')
  t.equal(
    verdict,
    'Project wiki has used 150% of its quota of stored bytes. Project blog has used 100% of its quota of events per day: more events are refused. Project shop has used 87% of its quota of events per month.',
  )
  t.equal(advice, 'Raise the quota in the project’s settings, wait until its day or month ends, or remove data.')
})

t.test('the manual documents every limit', async (t) => {
  const [, section = ''] = (await readFile('docs/limits.md', 'utf8')).split('## When a limit is met')
  const rows = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `(\w+)` +\|/gm)].map(([, name]) => name)
  t.strictSame(rows.filter((name) => name !== 'limit').sort(), Object.keys(LIMITS).sort())
})

t.test('runChecks reports each problem with its level and advice', async (t) => {
  const refused = 'tallyhouse_events_refused_total{code="overloaded"}'
  const overShare = 'tallyhouse_events_over_share_total'
  const later = { at: 2_005_000 }
  const cases: [string, Snapshot, Snapshot | null, string, RegExp][] = [
    ['Service', reading({}, { notReady: 'Not ready: store.' }), null, 'bad', /^Not ready: store\.$/],
    [
      'Completeness',
      reading({
        'tallyhouse_store_lost_parts{state="detached"}': 1,
        'tallyhouse_store_lost_rows{table="events",month="2026-11",project="shop"}': 30_000,
      }),
      null,
      'bad',
      /lost or damaged parts: 1 detached/,
    ],
    [
      'Completeness',
      reading({
        'tallyhouse_ledger_events{project="shop",state="stored"}': 60_000,
        'tallyhouse_ledger_events{project="shop",state="missing"}': 30_000,
      }),
      null,
      'bad',
      /^Some events that were received are missing: 30,000 of shop\.$/,
    ],
    ['Intake', reading({ tallyhouse_journal_up: 0 }), null, 'bad', /journal is not responding/],
    ['Intake', reading({ [refused]: 5 }, later), reading(), 'bad', /because the journal was full/],
    [
      'Intake',
      reading({ [refused]: 5, [overShare]: 5 }, later),
      reading(),
      'bad',
      /^Events are being refused because a project had filled its share of the journal\.$/,
    ],
    [
      'Intake',
      reading({ [refused]: 5, [overShare]: 3 }, later),
      reading(),
      'bad',
      /because the journal was full and because a project had filled its share of the journal\.$/,
    ],
    [
      'Backlog',
      reading({ tallyhouse_journal_entries: 12_000, tallyhouse_journal_oldest_seconds: 4 }),
      null,
      'good',
      /^12,000\sentries are waiting to be stored, the oldest for 4\ss\.$/,
    ],
    [
      'Backlog',
      reading({ tallyhouse_journal_entries: 1, tallyhouse_journal_oldest_seconds: 11 }),
      null,
      'watch',
      /for 11\ss/,
    ],
    [
      'Backlog',
      reading({ tallyhouse_journal_entries: 1, tallyhouse_journal_oldest_seconds: 61 }),
      null,
      'bad',
      /for 1\smin 1\ss/,
    ],
    ['Backlog', reading({ tallyhouse_journal_bytes: 501 }), null, 'bad', /more than half full/],
    ['Store', reading({ tallyhouse_store_up: 0 }), null, 'bad', /ClickHouse is not responding/],
    [
      'Store',
      reading({ 'tallyhouse_block_retries_total{reason="memory"}': 1 }, later),
      reading(),
      'watch',
      /out of memory/,
    ],
    ['Disk', reading({ tallyhouse_data_dir_free_bytes: 15 }), null, 'watch', /^15%/],
    ['Disk', reading({ tallyhouse_data_dir_free_bytes: 5 }), null, 'bad', /^5%/],
    [
      'Dead letters',
      reading({ tallyhouse_dead_letters_total: 3 }, later),
      reading(),
      'watch',
      /^3\srequests could not be stored in the last 5\ss/,
    ],
    [
      'User names',
      reading({ 'tallyhouse_placeholder_names_total{kind="event"}': 2 }, later),
      reading(),
      'watch',
      /^In the last 5\ss, 2\smessages had a placeholder, such as undefined, instead of a user id\.$/,
    ],
    [
      'User names',
      reading({ tallyhouse_placeholder_names_total: 3, tallyhouse_alias_conflicts_total: 1 }, later),
      reading({ tallyhouse_placeholder_names_total: 2 }),
      'watch',
      /^In the last 5\ss, 1\smessage had a placeholder.*, and 1\slink was refused because both names are known users\.$/,
    ],
    ['Memory and load', reading({ nodejs_eventloop_lag_max_seconds: 1.5 }), null, 'watch', /up to 1\.5\ss/],
  ]
  for (const [title, now, before, level, verdict] of cases) {
    const readings = before ? [before, now] : [now]
    const check = part(title, ...readings)
    t.equal(check.level, level, `${title}: ${check.verdict}`)
    t.match(check.verdict, verdict)
    t.equal(check.advice === null, level === 'good', `${title} says what to do`)
    t.equal(summarize(runChecks(readings)).level, level)
  }
})

t.test('runChecks sums lanes, and takes the maximum over processes', async (t) => {
  const samples = parseMetrics(`
    tallyhouse_journal_entries{lane="0",process="a"} 3
    tallyhouse_journal_entries{lane="0",process="b"} 4
    tallyhouse_journal_entries{lane="1",process="a"} 5
    tallyhouse_store_up{shard="0"} 1
    tallyhouse_store_up{shard="1"} 0
  `)
  const now = { at: 1, samples, notReady: null }
  t.match(part('Backlog', now).verdict, /^9\sentries/)
  t.match(part('Store', now).verdict, /^Shard 1 of ClickHouse is not responding/)
})

t.test('runChecks judges recent changes only', async (t) => {
  const counts = {
    'tallyhouse_events_refused_total{code="overloaded"}': 5,
    'tallyhouse_block_retries_total{reason="memory"}': 2,
    tallyhouse_dead_letters_total: 3,
  }
  const [first, last] = [reading(counts), reading(counts, { at: 2_005_000 })]
  for (const readings of [[first], [first, last]]) {
    t.strictSame(summarize(runChecks(readings)), { level: 'good', verdict: 'Everything is working.' })
    t.match(part('Intake', ...readings).facts, [[], [], ['Refused since it started', '5']])
    t.match(part('Dead letters', ...readings).facts, [['Dead letters since it started', '3']])
  }
  const passed = [reading(), last, reading(counts, { at: 2_065_000 })]
  t.match(part('Intake', ...passed), {
    level: 'watch',
    verdict:
      'Events are being accepted again. 5\u00a0events were refused in the last 1\u00a0min 5\u00a0s because the journal was full.',
  })
  t.match(
    part('Store', ...passed).verdict,
    /^Storing failed 2\stimes in the last 1\smin 5\ss because ClickHouse ran out of memory\./,
  )
  t.match(part('Dead letters', ...passed).verdict, /^3\srequests could not be stored in the last 1\smin 5\ss/)
})
