import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { getKind } from '../../src/questions/kinds.js'
import { readQuestion } from '../../src/questions/parse.js'

const NOW = Date.parse('2026-05-01T00:00:00Z')
const shards = Shards.of(null as never)
const HOSTILE = [`'); DROP TABLE events; --`, `\\'`, '{v0:String}', '\u0000', '`', '\ud83d', '🙂', '\n"}', '*/', '%27']

/** A question of every part, in which the caller's texts are X. */
const X = 'X'
/** An event's name, which is well-formed. */
const NAME = 'NAME'
const where = [
  'and',
  [
    ['is', ['properties', X], [X, 1, true, null]],
    ['is_not', ['user', X], [X]],
    [
      'not',
      [
        'or',
        [
          ['contains', 'event', X],
          ['gt', 'distinct_id', X],
          ['lt', ['properties', X, X], 3],
        ],
      ],
    ],
    ['starts_with', ['properties', X], [X, X]],
    ['matches', ['user', X], X],
    ['set', ['properties', X]],
  ],
]
const definition = { event: [NAME, NAME], where }
const common = {
  from: '2026-04-01',
  to: '2026-05-01',
  timezone: 'Europe/Vienna',
  where,
  breakdown: [
    ['properties', X],
    ['user', X],
  ],
}
const plain = { ...common, breakdown: [] }
const QUESTIONS = [
  {
    kind: 'series',
    series: [definition, { ...definition, metric: 'percentile', property: ['properties', X], p: 12.5 }],
    ...common,
  },
  {
    kind: 'series',
    series: [definition, { event: NAME, metric: 'users' }],
    ...plain,
    interval: 'hour',
    approximate: true,
  },
  {
    kind: 'funnel',
    steps: [definition, definition, { event: '*' }],
    exclude: [{ ...definition, after: 1 }],
    ...common,
  },
  { kind: 'paths', start: definition, ...plain },
]

/** The SQL; equal values share a parameter, so their numbers are left out. */
function sqlOf(question: unknown, isFull: boolean): string {
  const parsed = readQuestion(question, NOW).question
  return getKind(parsed)
    .query(parsed, {
      projectId: 'p',
      now: NOW,
      shards,
      hasAliases: isFull,
      repairsTexts: isFull,
      pages: DEFAULT_SETTINGS,
    })
    .sql.replace(/\{v\d+:/g, '{v:')
}

/** The same question with another text in place of each X. */
function withText(value: unknown, text: string): unknown {
  if (value === NAME) return `${text.toWellFormed()}!`
  if (typeof value === 'string') return value === X ? text : value
  if (Array.isArray(value)) return value.map((one) => withText(one, text))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withText(one, text)]))
}

t.test("the SQL of a question does not depend on the caller's values", async (t) => {
  for (const question of QUESTIONS) {
    for (const isFull of [true, false]) {
      const sql = sqlOf(question, isFull)
      for (const text of HOSTILE) {
        // Half a surrogate pair goes as hexadecimal digits, so its parameter is wrapped.
        const hostile = sqlOf(withText(question, text), isFull).replace(/unhex\((\{v:String\})\)/g, '$1')
        t.equal(hostile, sql, `${question.kind} ${JSON.stringify(text)}`)
      }
    }
  }
})
