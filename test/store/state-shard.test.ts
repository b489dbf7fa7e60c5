import t from 'tap'
import { literal } from '../../src/clickhouse/parameters.js'
import { chooseLane } from '../../src/model/choose-lane.js'
import { type StateKind, toStateKey } from '../../src/model/state-key.js'
import { VERSIONED_TABLES } from '../../src/store/newest-rows.js'
import { stateShardSql } from '../../src/store/state-shard.js'
import { emptyClickHouse } from '../shared-engine.js'

const { clickhouse } = await emptyClickHouse()

/** Ordinary names, every character that JSON may escape, and texts that look like an escape. */
const NAMES = [
  ...Array.from({ length: 0x100 }, (_, code) => `a${String.fromCharCode(code)}b`),
  ...[
    '\\n',
    '\\\\u0000',
    '\\u2028',
    '"],["',
    '\u2028\u2029',
    '😀'.repeat(127),
    'é',
    '/',
    '\u{10ffff}',
    '\ufffe',
    "it's",
  ],
  ...Array.from({ length: 300 }, (_, i) => `user-${i}`),
]

t.test('stateShardSql finds the same shard as the service', async (t) => {
  const layout = { lanes: 7, shards: 3 }
  for (const kind of ['profiles', 'sessions'] satisfies StateKind[]) {
    for (const project of ['default', 'a "quoted" \\ project']) {
      const rows = await clickhouse.rows<{ shard: number }>(
        `SELECT ${stateShardSql(kind, layout)} AS shard
         FROM (SELECT toLowCardinality(${literal(project)}) AS project_id, arrayJoin([${NAMES.map(literal).join()}]) AS ${VERSIONED_TABLES[kind].key})`,
        {},
        { max_query_size: '10000000' },
      )
      const wanted = NAMES.map((name) => chooseLane(toStateKey(kind, project, name), layout.lanes) % layout.shards)
      t.strictSame(
        rows.map(({ shard }) => Number(shard)),
        wanted,
        `${kind} of ${project}`,
      )
      t.strictSame(new Set(wanted), new Set([0, 1, 2]))
    }
  }
})
