import type { AnswerTo, Cohort } from '../../contract/questions.js'
import { formatDate } from '../lib/answer-labels.js'
import { labelInterval } from '../lib/answer-table.js'
import { formatNumber, formatShare } from '../lib/format.js'
import { hasBegun } from '../lib/range.js'
import { Scrollable } from '../ui/scrollable.js'
import * as tableStyles from '../ui/table.module.css'
import * as textStyles from '../ui/text.module.css'
import * as styles from './cohorts.module.css'
import { NumberButton } from './number-button.js'
import { useRowLimit } from './row-limit.js'

type RetentionAnswer = AnswerTo<'retention'>

/** One row per cohort, with the share of users who returned in each interval; larger shares are darker. */
export function Cohorts({ answer: { results, averages, query } }: { answer: RetentionAnswer }) {
  const { limit, more } = useRowLimit(results.length)
  const hasOpen = results.some(({ cells }) => cells.some(({ complete }) => !complete))
  return (
    <Scrollable label="Cohorts" class={tableStyles.scroll}>
      <table class={styles.cohorts}>
        <thead>
          <tr>
            <th scope="col">Cohort</th>
            <th scope="col" class={tableStyles.number}>
              Users
            </th>
            {averages.map(({ interval }) => (
              <th key={interval} scope="col" class={tableStyles.number}>
                {labelInterval(query.unit, interval)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr class={styles.averages}>
            <th scope="row">Average</th>
            <td />
            {averages.map(({ interval, share }) => (
              <Share key={interval} share={share} text={share === null ? '–' : formatShare(share)} />
            ))}
          </tr>
          {results.slice(0, limit).map((cohort) => (
            <CohortRow key={cohort.cohort} cohort={cohort} query={query} />
          ))}
        </tbody>
      </table>
      {more}
      <p class={textStyles.hint}>{describeFirst(query)}</p>
      {hasOpen && <p class={textStyles.hint}>* is not over yet, may still grow, and is left out of the averages.</p>}
    </Scrollable>
  )
}

const DAYS = { day: '24 hours', week: '7 days', month: '30 days' }

/** Explains what is counted, such as `Week 0 is the week in which a user started, Week 1 the week after it.` */
function describeFirst({ unit, mode }: RetentionAnswer['query']): string {
  const [first, second] = [labelInterval(unit, 0), labelInterval(unit, 1)]
  if (mode === 'calendar') return `${first} is the ${unit} in which a user started, ${second} the ${unit} after it.`
  return `${first} is the first ${DAYS[unit]} after a user’s start, ${second} the ${DAYS[unit]} after those.`
}

interface CohortRowProps {
  cohort: Cohort
  query: RetentionAnswer['query']
}

function CohortRow({ cohort: { cohort, size, cells }, query }: CohortRowProps) {
  const date = formatDate(cohort)
  return (
    <tr>
      <th scope="row">{date}</th>
      <td class={tableStyles.number}>
        <NumberButton
          text={formatNumber(size)}
          title={`Cohort of ${date}`}
          drillDown={{ of: query, cell: { cohort } }}
        />
      </td>
      {cells.map(({ interval, users, complete }) => {
        if (!complete && !hasBegun(query, cohort, interval, Date.now())) return <td key={interval} />
        const title = `${labelInterval(query.unit, interval)} of the cohort of ${date}`
        const text = size === 0 ? '–' : `${formatShare(users / size)}${complete ? '' : '*'}`
        return (
          <Share key={interval} share={size === 0 ? null : users / size} isOpen={!complete} text={text}>
            <NumberButton
              text={text}
              title={title}
              drillDown={users > 0 ? { of: query, cell: { cohort, interval } } : undefined}
            />
          </Share>
        )
      })}
    </tr>
  )
}

interface ShareProps {
  share: number | null
  text: string
  isOpen?: boolean
  children?: preact.ComponentChildren
}

/** The shade is at most half the colour, so that the text on it stays readable. */
function Share({ share, text, isOpen = false, children = text }: ShareProps) {
  return (
    <td
      class={isOpen ? `${tableStyles.number} ${styles.shade} ${styles.open}` : `${tableStyles.number} ${styles.shade}`}
      style={{ '--shade': `${Math.round(Math.sqrt(share ?? 0) * 50)}%` }}
    >
      {children}
    </td>
  )
}
