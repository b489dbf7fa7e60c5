import { useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import type { Warning } from '../../../contract/warning.js'
import type { ComparedAnswer } from '../../api/answers.js'
import { AnswerNotes } from '../../charts/answer-notes.js'
import { AnswerView } from '../../charts/answer-view.js'
import { DrillDownArea } from '../../charts/drill-down.js'
import type { Loaded } from '../../hooks/use-loaded.js'
import { buildTables, toCsvRows } from '../../lib/answer-table.js'
import { BASE_URL } from '../../lib/base-url.js'
import { buildRequest, needsFirstEvent } from '../../lib/build-request.js'
import { getProjectSettings } from '../../lib/project-settings.js'
import {
  canBeMoney,
  chooseVisualization,
  type Display,
  type Draft,
  linkToExplore,
  listVisualizations,
  type Visualization,
} from '../../lib/question.js'
import type { Moment } from '../../lib/range.js'
import { parseRoute } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { CopyButton } from '../../ui/copy-button.js'
import { CsvButton } from '../../ui/csv-button.js'
import * as loadingStyles from '../../ui/loading.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { SegmentedControl } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { Checkbox } from '../../ui/text-field.js'
import * as styles from './answer-panel.module.css'
import { RangeBar } from './range-bar.js'

const VISUALIZATION_LABELS: Record<Visualization, string> = {
  line: 'Lines',
  area: 'Stacked',
  bar: 'Bars',
  number: 'Numbers',
  funnel: 'Funnel',
  grid: 'Grid',
  flow: 'Flow',
  table: 'Table',
}

interface AnswerPanelProps {
  /** undefined if there is none to answer: it is not JSON, or a field is invalid */
  question: unknown
  draft: Draft | null
  display: Display
  moment: Moment
  result: Loaded<ComparedAnswer>
  /** what the user still has to choose or correct, if anything */
  gap: string | undefined
  onChange: (draft: Draft, display: Display) => void
  /** applies a warning's suggestion to the question */
  onAccept: (warning: Warning) => void
}

/** The answer with its display options and actions. */
export function AnswerPanel({ question, draft, display, moment, result, gap, onChange, onAccept }: AnswerPanelProps) {
  // An answer to a question of another kind is stale.
  const value = draft && result.value?.answer.kind !== draft.kind ? null : result.value
  return (
    <section class={cardStyles.card} aria-label="Answer">
      {draft && <RangeBar draft={draft} display={display} moment={moment} onChange={onChange} />}
      {draft && <VisualizationBar draft={draft} display={display} onChange={onChange} />}
      {gap && (
        <p class={textStyles.hint} role="status">
          {gap}
        </p>
      )}
      {question === undefined && !gap && <p class={textStyles.hint}>The question is not JSON.</p>}
      {result.error && <Failure error={result.error} onRetry={result.reload} />}
      {result.isLoading && !value && <Loading what="the answer" />}
      {value && <Answer result={value} display={display} isOld={result.isLoading} onAccept={onAccept} />}
      {question !== undefined && (
        <Actions question={question} display={display} moment={moment} result={value} isOld={result.isOld} />
      )}
    </section>
  )
}

type VisualizationBarProps = Pick<AnswerPanelProps, 'display' | 'onChange'> & { draft: Draft }

function VisualizationBar({ draft, display, onChange }: VisualizationBarProps) {
  const { currency } = getProjectSettings()
  const canCompare = display.range !== 'all' || draft.from !== undefined
  const options = listVisualizations(draft).map((drawing) => [drawing, VISUALIZATION_LABELS[drawing]] as const)
  return (
    <div class={styles.drawing}>
      <SegmentedControl
        label="Shown as"
        value={chooseVisualization(draft, display)}
        options={options}
        onChange={(as) => onChange(draft, { ...display, as })}
      />
      {draft.kind === 'series' && (
        <Checkbox
          label="Compare to previous period"
          checked={canCompare && (display.compare ?? false)}
          disabled={!canCompare}
          onChange={(compare) => onChange(draft, { ...display, compare })}
        />
      )}
      {currency !== null && canBeMoney(draft) && (
        <Checkbox
          label={`Amounts in ${currency}`}
          checked={display.money ?? false}
          onChange={(money) => onChange(draft, { ...display, money })}
        />
      )}
    </div>
  )
}

interface AnswerProps {
  result: ComparedAnswer
  display: Display
  /** whether the next answer is loading */
  isOld: boolean
  onAccept: (warning: Warning) => void
}

function Answer({ result, display, isOld, onAccept }: AnswerProps) {
  const [asTable, setAsTable] = useState(false)
  const drawing = chooseVisualization(result.answer.query, display)
  return (
    <DrillDownArea place="answer">
      <AnswerNotes result={result} onAccept={onAccept} />
      <div class={`${styles.drawn} ${loadingStyles.answer}`} aria-busy={isOld}>
        <AnswerView {...result} display={display} />
      </div>
      {drawing !== 'table' && (
        <Button look="link" aria-expanded={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? 'Hide the table' : 'Show as table'}
        </Button>
      )}
      {asTable && drawing !== 'table' && <AnswerView {...result} display={{ ...display, as: 'table' }} />}
    </DrillDownArea>
  )
}

type ActionsProps = Pick<AnswerPanelProps, 'question' | 'display' | 'moment'> & {
  result: ComparedAnswer | null
  /** whether the result answers an earlier question */
  isOld: boolean
}

function Actions({ question, display, moment, result, isOld }: ActionsProps) {
  const tables = result ? buildTables(result.answer, result.before) : []
  const hasRange = moment.first !== null || !needsFirstEvent(question, display)
  return (
    <footer class={styles.actions}>
      {tables.map((table) => (
        <CsvButton
          key={table.title}
          name={`${result?.answer.kind}-${table.title.toLowerCase()}`}
          rows={() => toCsvRows(table)}
          label={tables.length > 1 ? `${table.title} CSV` : 'Download CSV'}
          isOld={isOld}
        />
      ))}
      {hasRange && <CopyButton label="Copy as curl" text={buildCurl(buildRequest(question, display, moment))} />}
      <CopyButton label="Copy link" text={buildLink(question, display)} />
      {result && (
        <span class={`${textStyles.hint} ${styles.elapsed}`} role="status">
          Answered in {Math.round(result.answer.elapsed_ms)} ms
        </span>
      )}
    </footer>
  )
}

/**
 * The current URL, or an explicit link if the URL has no question and depends on the project's data and the
 * browser's time zone.
 */
function buildLink(question: unknown, display: Display): string {
  const isWhole = parseRoute(location.hash).query.has('q')
  return isWhole ? location.href : `${BASE_URL}/${linkToExplore(question, display)}`
}

/** The same request as a curl command. */
function buildCurl(request: unknown): string {
  const body = formatExactJson(request).replaceAll("'", "'\\''")
  return `curl -H 'content-type: application/json' -H "x-api-key: $KEY" ${BASE_URL}/public/query -d '${body}'`
}
