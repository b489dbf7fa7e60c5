import { type ComponentChildren, createContext } from 'preact'
import { useContext, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import { isRest } from '../../../contract/labels.js'
import type { AnswerTo, Filter, Scalar } from '../../../contract/questions.js'
import { fetchAnswer } from '../../api/answers.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { drillIntoLine } from '../../lib/answer-table.js'
import { applyControls, type BoardControls } from '../../lib/board-controls.js'
import type { CsvPart, CsvRow } from '../../lib/csv.js'
import { formatNumber } from '../../lib/format.js'
import { type Display, linkToExplore } from '../../lib/question.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Dialog } from '../../ui/dialog.js'
import * as loadingStyles from '../../ui/loading.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { Tabs } from '../../ui/tabs.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './panel.module.css'
import { type Row, Rows } from './rows.js'
import {
  askTab,
  filterByValue,
  labelValue,
  MAX_ROWS,
  type PANELS,
  ROWS,
  type Tab,
  type WebSource,
} from './web-questions.js'

/** Shared by all panels. */
export interface WebView {
  source: WebSource
  controls: BoardControls
  /** incremented at each refresh */
  round: number
  onFilter: (filter: Filter) => void
}

export const WebContext = createContext<WebView | null>(null)

export function useWeb(): WebView {
  const view = useContext(WebContext)
  if (!view) throw new Error('there is no view')
  return view
}

const OTHER_KIND = 'The service has answered another question.'

/** A question with the range and filter of the view. */
function applyView(question: object, display: Display, controls: BoardControls) {
  return applyControls(question, display, controls, Date.now()) ?? { question, display }
}

/**
 * Asks a question.
 * @param view null if the question has its own range and filter, and is never refreshed
 * @param priority order among questions asked together, the smallest first
 */
export function useSeries(
  question: object | null,
  display: Display,
  view: Pick<WebView, 'controls' | 'round'> | null,
  priority: number,
) {
  const applied = question && (view ? applyView(question, display, view.controls) : { question, display })
  const key = applied && formatExactJson([applied.question, applied.display])
  const load = async (signal: AbortSignal) => {
    const { answer, before } = await fetchAnswer(applied?.question, applied?.display ?? {}, { signal, priority })
    if (answer.kind !== 'series') throw new Error(OTHER_KIND)
    return { answer, before }
  }
  return useLoaded(key, load, view?.round)
}

interface TabPanelProps {
  panel: (typeof PANELS)[number]
  /** id of the selected tab */
  selected: string
  priority: number
  onSelect: (id: string) => void
}

/** A panel with tabs. The selected tab lists the most frequent values of its field. */
export function TabPanel({ panel: { title, tabs }, selected, priority, onSelect }: TabPanelProps) {
  const index = Math.max(
    0,
    tabs.findIndex(({ id }) => id === selected),
  )
  const tab = tabs[index]
  return (
    <section class={`${cardStyles.card} ${styles.panel}`} aria-label={title}>
      <Tabs
        label={title}
        titles={tabs.map((one) => one.title)}
        selected={index}
        onSelect={(next) => onSelect(next === 0 ? '' : (tabs[next]?.id ?? ''))}
      >
        {tab && <TabContent key={tab.id} tab={tab} priority={priority} />}
      </Tabs>
    </section>
  )
}

function TabContent({ tab, priority }: { tab: Tab; priority: number }) {
  const view = useWeb()
  const { source, controls } = view
  const [isOpen, setOpen] = useState(false)
  const question = askTab(tab, source, ROWS)
  const result = useSeries(question, {}, view, priority)
  const hasMore = result.value && hasRest(result.value.answer)
  return (
    <>
      {result.error && <Failure error={result.error} onRetry={result.reload} />}
      {!result.value && result.isLoading && <Loading what={tab.title.toLowerCase()} />}
      {result.value && (
        <div class={loadingStyles.answer} aria-busy={result.isLoading}>
          <TabRows tab={tab} answer={result.value.answer} />
        </div>
      )}
      <PanelFooter
        title={tab.title}
        question={question}
        csv={() => buildCsv(tab, source, controls)}
        more={
          hasMore && (
            <Button look="link" aria-label={`More ${tab.title.toLowerCase()}`} onClick={() => setOpen(true)}>
              More
            </Button>
          )
        }
      />
      {isOpen && <TabDialog tab={tab} onClose={() => setOpen(false)} />}
    </>
  )
}

/** Lists up to MAX_ROWS values of a tab. */
function TabDialog({ tab, onClose }: { tab: Tab; onClose: () => void }) {
  const view = useWeb()
  // The list is not refreshed, because readers would lose their place when its order changes.
  const { value, error, reload } = useSeries(askTab(tab, view.source, MAX_ROWS), {}, { ...view, round: 0 }, 0)
  return (
    <Dialog title={tab.title} onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && !error && <Loading what={tab.title.toLowerCase()} />}
      {value && <TabRows tab={tab} answer={value.answer} onFiltered={onClose} />}
      {value && hasRest(value.answer) && (
        <p class={textStyles.hint}>Only the first {formatNumber(MAX_ROWS)} are listed.</p>
      )}
    </Dialog>
  )
}

type SeriesAnswer = AnswerTo<'series'>

interface TabRowsProps {
  tab: Tab
  answer: SeriesAnswer
  onFiltered?: () => void
}

function TabRows({ tab, answer, onFiltered }: TabRowsProps) {
  const { source, onFilter } = useWeb()
  const rows = listValues(answer).map((line): Row => {
    const value = line.breakdown[0] as Scalar
    return {
      label: labelValue(tab, value),
      value: line.total ?? 0,
      drillDown: drillIntoLine(answer, line),
      onFilter: () => {
        onFilter(filterByValue(tab, value, source))
        onFiltered?.()
      },
    }
  })
  return <Rows columns={[tab.one, 'Visitors']} rows={rows} />
}

/** Whether there are more values than lines. */
function hasRest({ results }: SeriesAnswer): boolean {
  return results.some(({ breakdown }) => isRest(breakdown))
}

/** The lines of the values that are listed. */
function listValues({ results }: SeriesAnswer): SeriesAnswer['results'] {
  return results.filter(({ breakdown, total }) => !isRest(breakdown) && total !== 0)
}

async function buildCsv(tab: Tab, source: WebSource, controls: BoardControls): Promise<CsvPart> {
  const { question, display } = applyView(askTab(tab, source, MAX_ROWS), {}, controls)
  const { answer } = await fetchAnswer(question, display)
  if (answer.kind !== 'series') throw new Error(OTHER_KIND)
  const rows = listValues(answer).map(({ breakdown, total }): CsvRow => {
    return [labelValue(tab, breakdown[0] as Scalar), total]
  })
  return { rows: [[tab.one, 'Visitors'], ...rows], isCut: hasRest(answer) }
}

interface PanelFooterProps {
  title: string
  question: object
  display?: Display
  /** null until there is something to save */
  csv: (() => CsvRow[] | Promise<CsvPart>) | null
  /** whether the rows are of an earlier range or filter */
  isOld?: boolean
  more?: ComponentChildren
}

/** Links to Explore and to a CSV file. */
export function PanelFooter({ title, question, display = {}, csv, isOld = false, more }: PanelFooterProps) {
  const { controls } = useWeb()
  const applied = applyView(question, display, controls)
  return (
    <footer class={styles.footer}>
      {more}
      <a href={linkToExplore(applied.question, applied.display)} aria-label={`Explore ${title.toLowerCase()}`}>
        Explore
      </a>
      {csv && (
        <CsvButton name={title} rows={csv} label="CSV" isLink about={`CSV of ${title.toLowerCase()}`} isOld={isOld} />
      )}
    </footer>
  )
}
