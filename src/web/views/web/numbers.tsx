import { useMemo } from 'preact/hooks'
import type { AnswerTo } from '../../../contract/questions.js'
import { AnswerView } from '../../charts/answer-view.js'
import { buildTotal, type LineTotal } from '../../charts/line-totals.js'
import { Change, Periods, TotalNumber } from '../../charts/totals.js'
import * as totalsStyles from '../../charts/totals.module.css'
import { findLineBefore } from '../../lib/answer-table.js'
import type { CsvRow } from '../../lib/csv.js'
import { formatDuration, formatNumber, formatShare } from '../../lib/format.js'
import { type AnswerBefore, isUpcoming, type LineBefore, listStarts } from '../../lib/period-before.js'
import * as styles from './numbers.module.css'
import { SERIES } from './web-questions.js'
import { NUMBERS, type NumberName } from './web-state.js'

/** The display of one of the numbers. */
interface Shown {
  title: string
  /** its name in the chart, with the unit */
  inChart: string
  format: (value: number) => string
}

const SHOWN: Record<NumberName, Shown> = {
  visitors: { title: 'Unique visitors', inChart: 'Unique visitors', format: formatNumber },
  visits: { title: 'Visits', inChart: 'Visits', format: formatNumber },
  views: { title: 'Page views', inChart: 'Page views', format: formatNumber },
  pages: { title: 'Pages per visit', inChart: 'Pages per visit', format: formatNumber },
  bounces: { title: 'Bounce rate', inChart: 'Bounce rate (%)', format: (percent) => formatShare(percent / 100) },
  seconds: {
    title: 'Time per visit',
    inChart: 'Time per visit (s)',
    format: (seconds) => (seconds === 0 ? `0\u00a0s` : formatDuration(Math.round(seconds) * 1000)),
  },
}

type SeriesAnswer = AnswerTo<'series'>

interface NumbersProps {
  answer: SeriesAnswer
  before: AnswerBefore | null
  /** the number that the chart shows */
  chosen: NumberName
  onChoose: (number: NumberName) => void
}

/** The six numbers, and the chosen one over time. */
export function Numbers({ answer, before, chosen, onChoose }: NumbersProps) {
  const picked = useMemo(() => pickNumber({ answer, before }, chosen), [answer, before, chosen])
  return (
    <>
      <ul class={styles.numbers} aria-label="Numbers">
        {NUMBERS.map((number) => {
          const line = computeTotal({ answer, before }, number)
          return (
            <li key={number} data-chosen={number === chosen}>
              <button
                type="button"
                class={styles.choose}
                aria-pressed={number === chosen}
                onClick={() => onChoose(number)}
              >
                {line.name}
              </button>
              <span class={totalsStyles.total} style={{ '--characters': line.now.text.length }}>
                <TotalNumber line={line} />
              </span>
              <Change line={line} isShort />
            </li>
          )
        })}
      </ul>
      {before && <Periods answer={answer} before={before} />}
      <AnswerView {...picked} display={{ as: 'line' }} />
    </>
  )
}

interface SeriesPair {
  answer: SeriesAnswer
  before: AnswerBefore | null
}

function computeTotal(pair: SeriesPair, number: NumberName): LineTotal {
  const { answer, before } = pickNumber(pair, number)
  const { title, format } = SHOWN[number]
  return {
    name: title,
    series: SERIES[number],
    now: buildTotal(answer, answer.results[0] ?? null, format),
    before: before && buildTotal(before, findLineBefore(before, 0), format),
  }
}

/** The answer with the line of one number alone. */
function pickNumber({ answer, before }: SeriesPair, number: NumberName): SeriesPair {
  const find = (name: NumberName) => answer.results.findIndex(({ series }) => series === SERIES[name])
  const pick = (lines: Pick<AnswerBefore, 'results'>) => {
    const line = findLineBefore(lines, find(number))
    const whole = findLineBefore(lines, find('visits'))
    return line && { ...(number === 'bounces' ? toPercent(line, whole) : line), name: SHOWN[number].inChart }
  }
  const line = pick(answer)
  return {
    answer: { ...answer, results: line ? [line] : [] },
    before: before && { ...before, results: [pick(before)] },
  }
}

/** The six numbers for each bucket of the range, and for the whole range. */
export function buildNumbersCsv(pair: SeriesPair): CsvRow[] {
  const lines = NUMBERS.map((number) => pickNumber({ ...pair, before: null }, number).answer.results[0])
  const ats = listStarts(pair.answer).filter((at) => !isUpcoming(at, Date.now()))
  return [
    ['Time', ...NUMBERS.map((number) => SHOWN[number].inChart)],
    ...ats.map((at, i): CsvRow => [at, ...lines.map((line) => line?.points[i]?.value ?? null)]),
    ['Total', ...lines.map((line) => line?.total ?? null)],
  ]
}

/** A line as a share of another one, in percent. */
function toPercent(line: LineBefore, whole: LineBefore | null): LineBefore {
  const divide = (value: number | null | undefined, by: number | null | undefined) => {
    return value == null || !by ? null : (100 * value) / by
  }
  const points = line.points.map((point, i) => ({ ...point, value: divide(point.value, whole?.points[i]?.value) }))
  return { ...line, total: divide(line.total, whole?.total), points }
}
