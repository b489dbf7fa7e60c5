import fc from 'fast-check'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId } from '../../src/model/event-id.js'
import { Paths } from '../../src/questions/property-paths.js'
import { Statement } from '../../src/questions/statement.js'
import { BUCKET_SETTINGS, computeFromProperties, FACT_COLUMNS, selectFacts } from '../../src/store/fact-columns.js'
import { startClickHouse } from '../helper.js'
import { spaces, spell, value } from '../json/spell.js'

const NAMES = ['a', 'b', '', 'a.b', 'ü', '\u{1f600}', '\ud83d', '\u{10fffc}d83d', 'null', '__proto__']
const PATHS = [...NAMES.map((name) => [name]), ...['a', 'b', ''].flatMap((outer) => NAMES.map((name) => [outer, name]))]
PATHS.push(['a', 'b', 'a'], ['a', 'b', 'a', 'b'])

/** JSON that the parser of the store takes apart, also where JavaScript would write something else. */
const taken = fc.oneof(
  fc.tuple(value, spaces).map(([one, gaps]) => spell(one, gaps)),
  fc.constantFrom('null', '1.0', '-0', '-0.0', '1e20', '-1e19', '18446744073709551615', '1e-320', '123456789.5e300'),
  fc.constantFrom('"\\u0000"', '"\\ud83d\\ude00"', '"\u2028"', '"\\/"', '"\\\\ud83d"', '"\u{10fffc}d83d"'),
  fc.integer({ min: 20, max: 60 }).map((depth) => `${'{"a":'.repeat(depth)}[]${'}'.repeat(depth)}`),
)
const refused = fc.constantFrom(
  ...['"\\ud83d"', '"x\\udc00\\ud83d"', '1e400', '-1e400', '36893488147419103232', '"\\\\\\ud83d"', '1e999'],
)

function objects(leaf: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const { object } = fc.letrec<{ object: string; some: string }>((tie) => ({
    some: fc.oneof({ maxDepth: 3 }, leaf, leaf, tie('object'), fc.tuple(tie('some'), leaf).map((all) => `[${all}]`)),
    // The same name may be there twice.
    object: fc
      .array(fc.tuple(fc.constantFrom(...NAMES), tie('some')), { maxLength: 6 })
      .map((members) => `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`),
  }))
  return object
}

const texts = fc.oneof(
  { weight: 3, arbitrary: objects(taken) },
  { weight: 2, arbitrary: objects(fc.oneof({ weight: 6, arbitrary: taken }, { weight: 1, arbitrary: refused })) },
)

/** ClickHouse's time to plan a statement grows faster than the number of its paths. */
const AT_ONCE = 5

/** A token, with the same spelling for numbers that questions take for the same. */
const decode = (base64 = '') =>
  Buffer.from(base64, 'base64')
    .toString()
    .replace(/(?<=^|[[,:])-0(?=$|[\],}])/g, '0')
    .replace(/(?<=^|[[,:]-?)\d{16,}(?=$|[\],}])/g, (digits) => BigInt(Number(digits)).toString())

t.test('facts have the values that questions find in the text', async (t) => {
  const engine = await startClickHouse(t)
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  await clickhouse.command(`ALTER TABLE event_facts MODIFY SETTING ${BUCKET_SETTINGS}`)
  const shards = Shards.of(clickhouse)
  const given = fc.sample(texts, { numRuns: 400, seed: 45 })
  const rows = given.map((properties, index) => ({
    project_id: 'p',
    event_id: formatEventId({ position: 1n << 40n, index, journalId: 1 }),
    event: 'e',
    distinct_id: `user ${index % 7}`,
    timestamp: index,
    received_at: 0,
    properties,
  }))
  const events = rows.map((row) => JSON.stringify(row)).join('\n')
  await clickhouse.command(`INSERT INTO events FORMAT JSONEachRow ${events}`)
  const copy = (from: string) =>
    clickhouse.command(`INSERT INTO event_facts (${FACT_COLUMNS.join(', ')}) ${selectFacts('events', from, '1')}`)
  await copy('timestamp < 200')
  await copy('timestamp >= 200')

  const read = async (source: 'events' | 'facts', some: string[][]) => {
    const context = { projectId: 'p', now: 0, shards, hasAliases: false, repairsTexts: true }
    const statement = new Statement(context)
    const paths = new Paths('p')
    for (const path of some) paths.column(path)
    const [raws, tokens, table, rest] =
      source === 'events'
        ? [paths.raws(statement, 'properties'), paths.tokens(statement, 'properties'), 'events', 'properties']
        : [paths.factRaws(statement), paths.factTokens(statement), 'event_facts', 'repaired']
    const names = paths.names.map((name) => `base64Encode(${name})`)
    return await clickhouse.rows<{ found: string[] }>(
      `SELECT [${names.join(', ')}] AS found FROM (SELECT *, ${tokens.join(', ')} FROM
         (SELECT timestamp, ${raws.join(', ')}, ${rest} FROM ${table})) ORDER BY timestamp`,
      statement.parameters,
    )
  }
  const isRepaired = (await clickhouse.rows<{ repaired: number }>('SELECT repaired FROM event_facts ORDER BY timestamp'))
    .map(({ repaired }) => repaired === 1)
  t.ok(isRepaired.filter(Boolean).length > 40)
  t.ok(isRepaired.filter((is) => !is).length > 40)
  const compare = async () => {
    for (let first = 0; first < PATHS.length; first += AT_ONCE) {
      const some = PATHS.slice(first, first + AT_ONCE)
      const [expected, found] = await Promise.all([read('events', some), read('facts', some)])
      t.equal(found.length, given.length)
      const wrong = given.flatMap((text, i) =>
        some.flatMap((path, k) => {
          const [right, wrong] = [expected, found].map((rows) => decode(rows[i]?.found[k]))
          return right === wrong ? [] : [{ text: text.slice(0, 1000), path, right, wrong }]
        }),
      )
      t.strictSame(wrong.slice(0, 3), [])
    }
  }
  await compare()
  // As for an edit.
  const { props, repaired } = computeFromProperties('properties')
  const [same] = await clickhouse.rows<{ all: string }>(
    `SELECT countIf(toString(f.props) = toString(${props}) AND f.repaired = ${repaired}) AS all
     FROM events AS e JOIN event_facts AS f ON f.event_id = e.event_id`,
  )
  t.equal(Number(same?.all), given.length)
  await clickhouse.command('OPTIMIZE TABLE event_facts FINAL')
  await compare()
})
