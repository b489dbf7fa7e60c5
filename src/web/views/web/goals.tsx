import type { AnswerTo, Filter } from '../../../contract/questions.js'
import type { EventName } from '../../../contract/responses.js'
import { drillIntoLine } from '../../lib/answer-table.js'
import { filterEvents } from '../../lib/choices.js'
import type { CsvRow } from '../../lib/csv.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Combobox } from '../../ui/combobox.js'
import * as loadingStyles from '../../ui/loading.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { Pills } from '../../ui/pills.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './goals.module.css'
import { PanelFooter, useSeries, useWeb } from './panel.js'
import * as panelStyles from './panel.module.css'
import { type Row, Rows } from './rows.js'
import { askGoals, filterByGoal, MAX_GOALS, suggestGoals } from './web-questions.js'

interface GoalsPanelProps {
  /** of the project */
  events: readonly EventName[]
  /** names of events; null for the suggested ones */
  chosen: readonly string[] | null
  priority: number
  onChoose: (goals: string[] | null) => void
}

/** Events that visits should lead to, with the share of the visits that have them. */
export function GoalsPanel({ events, chosen, priority, onChoose }: GoalsPanelProps) {
  const view = useWeb()
  const { source, onFilter } = view
  const goals = chosen ?? suggestGoals(events)
  const question = goals.length > 0 ? askGoals(goals, source) : null
  const { value, error, isLoading, isOld, reload } = useSeries(question, {}, view, priority)
  const rows = value && question ? listGoals(value.answer, goals, onFilter) : []
  return (
    <section class={`${cardStyles.card} ${panelStyles.panel} ${panelStyles.wide}`} aria-labelledby="goals">
      <h2 id="goals">Goals</h2>
      {error && <Failure error={error} onRetry={reload} />}
      {question && !value && isLoading && <Loading what="the goals" />}
      {value && question && (
        <div class={loadingStyles.answer} aria-busy={isLoading}>
          <Rows columns={['Event', 'Visits']} rows={rows} />
        </div>
      )}
      {!question && <p class={textStyles.hint}>Choose the events that visits should lead to, such as a purchase.</p>}
      <GoalFields events={events} goals={goals} isChosen={chosen !== null} onChoose={onChoose} />
      {question && (
        <PanelFooter
          title="Goals"
          question={question}
          isOld={isOld}
          csv={
            value &&
            (() => [
              ['Event', 'Visits', 'Rate'],
              ...rows.map(({ label, value, share }): CsvRow => [label, value, share ?? null]),
            ])
          }
        />
      )}
    </section>
  )
}

interface GoalFieldsProps extends Pick<GoalsPanelProps, 'events' | 'onChoose'> {
  goals: readonly string[]
  /** whether they differ from the suggested ones */
  isChosen: boolean
}

function GoalFields({ events, goals, isChosen, onChoose }: GoalFieldsProps) {
  const suggest = async (text: string) => {
    return filterEvents(
      text,
      events.filter(({ event }) => event !== '' && !goals.includes(event)),
    )
  }
  return (
    <details class={styles.fields}>
      <summary>Choose goals</summary>
      <Pills
        label="Chosen goals"
        texts={goals}
        nameRemoval={(goal) => `Remove goal: ${goal}`}
        onRemove={(index) => onChoose(goals.toSpliced(index, 1))}
      />
      {goals.length < MAX_GOALS ? (
        <Combobox
          label="Add a goal"
          hidesLabel
          value=""
          placeholder="Add an event"
          suggest={suggest}
          onChange={(event) => {
            if (!goals.includes(event)) onChoose([...goals, event])
          }}
        />
      ) : (
        <p class={textStyles.hint}>This is the maximum number of goals.</p>
      )}
      {isChosen && (
        <Button look="link" onClick={() => onChoose(null)}>
          Use the most frequent events
        </Button>
      )}
    </details>
  )
}

type SeriesAnswer = AnswerTo<'series'>

function listGoals(answer: SeriesAnswer, goals: readonly string[], onFilter: (filter: Filter) => void): Row[] {
  const find = (series: number) => answer.results.find((line) => line.series === series)
  const all = find(0)?.total ?? 0
  return goals.flatMap((goal): Row[] => {
    // The last answer may have other goals, if some have just been added or removed.
    const line = find(findGoal(answer, goal))
    if (!line) return []
    const value = line.total ?? 0
    return [
      {
        label: goal,
        value,
        share: all > 0 ? value / all : undefined,
        drillDown: drillIntoLine(answer, line),
        onFilter: () => onFilter(filterByGoal(goal)),
      },
    ]
  })
}

/** The index of the series that counts the visits with a goal; -1 if the answer has none. */
function findGoal({ query }: SeriesAnswer, goal: string): number {
  return query.series.findIndex(({ where }) => {
    const [, has] = where?.[0] === 'and' ? where[1] : []
    return has?.[0] === 'session_has' && has[1].event === goal
  })
}
