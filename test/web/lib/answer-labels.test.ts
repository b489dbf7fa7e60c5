import t from 'tap'
import { formatBuckets } from '../../../src/web/lib/answer-labels.js'

t.test('formatBuckets distinguishes the hour that is repeated when clocks go back', (t) => {
  const ats = ['01:00:00+02:00', '02:00:00+02:00', '02:00:00+01:00', '03:00:00+01:00'].map((at) => `2026-10-25T${at}`)
  const texts = formatBuckets(ats, 'hour')
  t.match(texts[1], /\(UTC\+02:00\)$/)
  t.match(texts[2], /\(UTC\+01:00\)$/)
  t.notMatch(texts[0], /UTC/)
  t.equal(new Set(texts).size, 4)
  t.end()
})
