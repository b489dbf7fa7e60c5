import fc from 'fast-check'
import t from 'tap'
import type { SessionsDefinition } from '../../../../src/contract/questions.js'
import type { EventName } from '../../../../src/contract/responses.js'
import { Faults } from '../../../../src/questions/faults.js'
import { checkQuestion } from '../../../../src/questions/parse.js'
import { applyControls, parseControls } from '../../../../src/web/lib/board-controls.js'
import { buildRequest, buildRequestBefore } from '../../../../src/web/lib/build-request.js'
import { chooseVisualization, findGaps, parseDisplay, parseDraft } from '../../../../src/web/lib/question.js'
import { suggestBoard, suggestUsualBoard } from '../../../../src/web/views/boards/default-cards.js'
import { codePoint } from '../../../fuzz/texts.js'

const NOW = Date.parse('2026-05-20T12:00Z')
const DAY_MS = 86_400_000
const event = (name: string, count: number, age = 200, last = 0): EventName => {
  return { event: name, count, first_seen: NOW - age * DAY_MS, last_seen: NOW - last * DAY_MS }
}
const suggest = (events: EventName[], sessions: SessionsDefinition | null = null, timezone = 'UTC') =>
  suggestBoard({ events, sessions }, timezone, NOW)
const card = (events: EventName[], id: string) => suggest(events).cards.find((one) => one.id === id)

t.test('suggestBoard returns nothing for a project without events', async (t) => {
  t.strictSame(suggest([]).cards, [])
})

t.test('the cards of suggestUsualBoard are a prefix of those of suggestBoard', async (t) => {
  const { cards } = suggest([event('a', 5), event('b', 3)])
  t.strictSame(suggestUsualBoard().cards, cards.slice(0, 4))
})

t.test('suggestBoard shows visits and their sources if there are page views', async (t) => {
  const ids = (events: EventName[]) => suggest(events).cards.map(({ id }) => id)
  const usual = ['totals', 'users', 'events', 'top']
  t.strictSame(ids([event('bought', 5)]), [...usual, 'retention'])
  t.strictSame(ids([event('bought', 5), event('page', 1)]), [...usual, 'visits', 'sources', 'funnel', 'retention'])
})

t.test('suggestBoard uses the given definition of visits', async (t) => {
  const find = (sessions: SessionsDefinition | null) =>
    suggest([event('page', 1)], sessions).cards.filter(({ id }) => id === 'visits' || id === 'sources')
  t.notOk(find(null).some(({ question }) => 'sessions' in question))
  t.match(find({ gap: '30m' }), [
    { name: 'Visits, by pauses', question: { sessions: { gap: '30m' } } },
    { name: 'Visits by source, by pauses', question: { sessions: { gap: '30m' } } },
  ])
})

t.test('suggestBoard builds a funnel of the most frequent user actions', async (t) => {
  const events = [
    event('page viewed', 1000),
    event('$autocapture', 900),
    event('session_start', 800),
    event('signed up', 100),
    event('bought', 10),
    event('rare', 1),
  ]
  t.match(card(events, 'funnel')?.question, {
    steps: [{ event: 'page viewed' }, { event: 'signed up' }, { event: 'bought' }],
  })
  t.equal(card([event('only one', 5)], 'funnel'), undefined)
})

t.test('suggestBoard chooses a period with data', async (t) => {
  const display = (events: EventName[]) => suggest(events).display
  t.strictSame(display([event('a', 5)]), { range: '30d' })
  t.strictSame(display([event('a', 5, 3)]), { range: '7d' })
  t.match(card([event('a', 5, 3)], 'retention')?.question, { unit: 'day' })
  t.match(card([event('a', 5)], 'retention')?.question, { unit: 'week' })
  t.notMatch(card([event('a', 1e6)], 'retention')?.question, { cohort: 'recurring' })
  t.match(card([event('a', 1e6 + 1)], 'retention')?.question, { cohort: 'recurring' })
  t.strictSame(display([event('a', 5, 400, 100)]), { from: '2025-11-12', to: '2026-02-10' })
  t.equal(card([event('a', 5, 400, 100)], 'totals')?.display?.compare, undefined)
  t.strictSame(display([event('a', 5, 20, -400)]), { range: '30d' }, 'a clock that is ahead')
})

t.test('suggestBoard returns valid, editable questions for any events', async () => {
  const names = fc.record({
    event: fc.oneof(fc.constant('$pageview'), fc.string({ minLength: 1, unit: codePoint })),
    count: fc.integer({ min: 1, max: 1e9 }),
    first_seen: fc.integer({ min: 0, max: NOW }),
    last_seen: fc.integer({ min: 0, max: 2 * NOW }),
  })
  const zone = fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/Los_Angeles')
  const sessions = fc.constantFrom(null, { gap: '30m' })
  fc.assert(
    fc.property(fc.array(names, { minLength: 1, maxLength: 9 }), zone, sessions, (events, timezone, sessions) => {
      const { cards, display: own } = suggest(events, sessions, timezone)
      const controls = { ...parseControls(own), timezone }
      if (new Set(cards.map(({ id }) => id)).size !== cards.length) throw new Error('two cards have one id')
      for (const { question, display, width } of cards) {
        const draft = parseDraft(question)
        const shown = parseDisplay(display)
        if (!draft || findGaps(draft).length > 0) throw new Error('it cannot be edited')
        if (chooseVisualization(draft, shown) !== shown.as) throw new Error('it is not drawn as declared')
        if (width < 1 || width > 4) throw new Error('it does not fit')
        const moment = { now: NOW, first: null }
        const applied = applyControls(question, shown, controls, NOW)
        if (!applied) throw new Error('the board does not apply to it')
        for (const one of [
          question,
          buildRequest(applied.question, applied.display, moment),
          buildRequestBefore(applied.question, applied.display, moment)?.request ?? question,
        ]) {
          const faults = new Faults()
          checkQuestion(one as object, '', faults, NOW)
          faults.throwIfAny()
        }
      }
    }),
    { numRuns: 30 },
  )
})
