import fc from 'fast-check'
import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { isStoreError } from '../../src/clickhouse/errors.js'
import { choosePatternSettings, joinPatterns } from '../../src/questions/patterns.js'
import { emptyClickHouse } from '../shared-engine.js'

/** Whether any of the patterns matches each text, according to ClickHouse; null if a pattern does not compile. */
async function matches(
  clickhouse: ClickHouse,
  patterns: readonly string[],
  texts: readonly string[],
): Promise<boolean[] | null> {
  const each = await Promise.all(patterns.map((pattern) => matchesOne(clickhouse, pattern, texts)))
  return each.every((found) => found !== null) ? texts.map((_, i) => each.some((found) => found?.[i])) : null
}

async function matchesOne(
  clickhouse: ClickHouse,
  pattern: string,
  texts: readonly string[],
): Promise<boolean[] | null> {
  try {
    const rows = await clickhouse.rows<{ found: number }>(
      'SELECT match(text, {pattern:String}) AS found FROM (SELECT arrayJoin({texts:Array(String)}) AS text)',
      { pattern, texts: [...texts] },
    )
    return rows.map(({ found }) => found === 1)
  } catch (error) {
    if (isStoreError(error, 'CANNOT_COMPILE_REGEXP', 'BAD_ARGUMENTS')) return null
    throw error
  }
}

const TEXTS = [
  '',
  'a',
  'b',
  'ab',
  'A',
  'a.b',
  '(',
  ')',
  ']',
  '|',
  'a\nb',
  'é',
  '\\',
  'aab',
  '{1}',
  'Q',
  '^',
  '$x',
  'a-b',
]

const piece = fc.constantFrom(
  ...[
    'a',
    'b',
    '.',
    '^',
    '$',
    '|',
    '*',
    '+',
    '?',
    '{2}',
    '{0,3}',
    '{',
    '}',
    '(',
    ')',
    '(?:',
    '(?i)',
    '(?s)',
    '(?i:',
    '(?P<n>',
  ],
  ...[
    '[',
    ']',
    '[^',
    '[]',
    '[^]',
    '[[:alpha:]]',
    '[\\]]',
    '[a-b]',
    '\\',
    '\\Q',
    '\\E',
    '\\d',
    '\\W',
    '\\(',
    '\\pL',
    '\\x{61}',
  ],
  ...['é', '\n', '-', 'x', 'Q', ' '],
)
const pattern = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''))

t.test('joinPatterns matches if one of the patterns does, and is invalid if one of them is', async () => {
  const { clickhouse } = await emptyClickHouse()
  await fc.assert(
    fc.asyncProperty(fc.array(pattern, { minLength: 2, maxLength: 5 }), async (patterns) => {
      const apart = await matches(
        clickhouse,
        patterns.map((one) => `(?-s)${one}`),
        TEXTS,
      )
      const joined = await matches(clickhouse, joinPatterns(patterns), TEXTS)
      if (JSON.stringify(apart) !== JSON.stringify(joined)) {
        throw new Error(`${JSON.stringify(joinPatterns(patterns))}: ${apart} but ${joined}`)
      }
    }),
    { numRuns: 40 },
  )
})

t.test('joinPatterns joins valid patterns into one', async (t) => {
  t.strictSame(joinPatterns(['a']), ['(?-s)a'])
  t.strictSame(joinPatterns(['a|b', '\\Qc)', '[)]', '(d)']), ['(?-s)(?:a|b)|(?:c\\))|(?:[)])|(?:(d))'])
  t.strictSame(joinPatterns(['a)', 'b', '(c', '[d', 'e\\']), [
    '(?-s)(?:b)',
    '(?-s)a)',
    '(?-s)(c',
    '(?-s)[d',
    '(?-s)e\\',
  ])
  t.strictSame(joinPatterns([]), [])
})

t.test('choosePatternSettings reads large patterns in small blocks, or refuses them', async (t) => {
  const of = (...patterns: string[]) => patterns.map((pattern) => ({ path: '', pattern }))
  t.strictSame(choosePatternSettings(of('^/shop/(cart|order)/\\d+$', '(?i)sale.*')), {})
  t.match(choosePatternSettings(of('[a-z]{1,1000}x', '([a-c]d){500}')), { max_block_size: /^\d{4}$/ })
  for (const large of [
    '(.?){1000}(.?){1000}(.?){1000}(.?){1000}(.?){1000}',
    '\\pL{100}',
    '(([a-z]{1,50}x){10}){100}',
  ]) {
    t.throws(() => choosePatternSettings(of(large)), { code: 'query_too_large', message: /repetitions/ })
  }
  const some = Array.from({ length: 20 }, (_, i) => `([^"]?x){900}${i}`)
  t.throws(() => choosePatternSettings(of(...some)), { code: 'query_too_large' })
})
