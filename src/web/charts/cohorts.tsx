import type { AnswerTo, Cohort } from '../../contract/questions.js'
import { dateText } from '../lib/answer-labels.js'
import { intervalText } from '../lib/answer-table.js'
import { numberText, shareText } from '../lib/format.js'
import { hasBegun } from '../lib/range.js'
import { Scrollable } from '../ui/scrollable.js'
import { NumberButton, type OnNumber } from './number-button.js'

interface CohortsProps {
  answer: AnswerTo<'retention'>
  onNumber: OnNumber | undefined
}

/** A row per cohort with the share that came back in each interval; the darker, the more. */
export function Cohorts({ answer: { results, averages, query }, onNumber }: CohortsProps) {
  const hasOpen = results.some(({ cells }) => cells.some(({ complete }) => !complete))
  return (
    <Scrollable label="Cohorts" class="scroll">
      <table class="cohorts">
        <thead>
          <tr>
            <th scope="col">Cohort</th>
            <th scope="col" class="number">
              Size
            </th>
            {averages.map(({ interval }) => (
              <th key={interval} scope="col" class="number">
                {intervalText(query.unit, interval)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr class="averages">
            <th scope="row">Average</th>
            <td />
            {averages.map(({ interval, share }) => (
              <Share key={interval} share={share} text={share === null ? '–' : shareText(share)} />
            ))}
          </tr>
          {results.map((cohort) => (
            <CohortRow key={cohort.cohort} cohort={cohort} query={query} onNumber={onNumber} />
          ))}
        </tbody>
      </table>
      {hasOpen && <p class="hint">* is not over yet, may still grow, and is no part of the averages.</p>}
    </Scrollable>
  )
}

interface CohortRowProps {
  cohort: Cohort
  query: AnswerTo<'retention'>['query']
  onNumber: OnNumber | undefined
}

function CohortRow({ cohort: { cohort, size, cells }, query, onNumber }: CohortRowProps) {
  const date = dateText(cohort)
  return (
    <tr>
      <th scope="row">{date}</th>
      <td class="number">
        <NumberButton
          text={numberText(size)}
          title={`Cohort of ${date}`}
          behind={{ of: query, cell: { cohort } }}
          onNumber={onNumber}
        />
      </td>
      {cells.map(({ interval, users, complete }) => {
        if (!complete && !hasBegun(query, cohort, interval, Date.now())) return <td key={interval} />
        const title = `${intervalText(query.unit, interval)} of the cohort of ${date}`
        const text = size === 0 ? '–' : `${shareText(users / size)}${complete ? '' : '*'}`
        return (
          <Share key={interval} share={size === 0 ? null : users / size} isOpen={!complete} text={text}>
            <NumberButton
              text={text}
              title={title}
              behind={{ of: query, cell: { cohort, interval } }}
              onNumber={users > 0 ? onNumber : undefined}
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

/** The text is read over its shade: there is never more than half of the colour. */
function Share({ share, text, isOpen = false, children = text }: ShareProps) {
  return (
    <td
      class={isOpen ? 'number shade open' : 'number shade'}
      style={{ '--shade': `${Math.round(Math.sqrt(share ?? 0) * 50)}%` }}
    >
      {children}
    </td>
  )
}
