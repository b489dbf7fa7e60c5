import { useEffect, useRef, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import { isSameJson } from '../../../contract/same-json.js'
import type { BoardCard } from '../../../contract/saved-schemas.js'
import { type ComparedAnswer, fetchAnswer } from '../../api/answers.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import { AnswerNotes } from '../../charts/answer-notes.js'
import { AnswerView } from '../../charts/answer-view.js'
import { DrillDownArea } from '../../charts/drill-down.js'
import { RowLimitContext } from '../../charts/row-limit.js'
import { type Loaded, useLoaded } from '../../hooks/use-loaded.js'
import { buildTables, toCsvRows } from '../../lib/answer-table.js'
import { applyControls, type BoardControls } from '../../lib/board-controls.js'
import { type Display, linkToExplore, parseDisplay, parseDraft, toQuestion } from '../../lib/question.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import * as loadingStyles from '../../ui/loading.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { Scrollable } from '../../ui/scrollable.js'
import * as textStyles from '../../ui/text.module.css'
import { CardControls, type CardControlsProps } from './card-controls.js'
import * as styles from './card-view.module.css'

/** Rows of a card, unless the user asks for all of them. */
const MAX_ROWS = 12
/** Elements this close to the viewport count as in view, so that they have loaded when the user scrolls there. */
const MARGIN = '200px'

interface CardViewProps {
  card: BoardCard
  /** index on the board; cards at the top load first */
  place: number
  saved: Loaded<SavedQuestion[]> | null
  controls: BoardControls
  /** incremented at each refresh; only cards in view load again */
  round: number
  edit: (Omit<CardControlsProps, 'card'> & { onDrop: () => void }) | undefined
}

/** A question and its answer, with a link to Explore. */
export function CardView({ card, place, saved, controls, round, edit }: CardViewProps) {
  const element = useRef<HTMLElement>(null)
  const isInView = useInView(element)
  const [isTarget, setTarget] = useState(false)
  const lastRound = useRef<number | null>(null)
  if (isInView) lastRound.current = round
  const source = findSource(card, saved, controls)
  const { range, compare } = source.display
  const canAsk = source.question !== null && lastRound.current !== null
  const result = useLoaded<ComparedAnswer>(
    canAsk ? formatExactJson([source.question, range, compare]) : null,
    (signal) => fetchAnswer(source.question, source.display, { signal, priority: place }),
    lastRound.current ?? 0,
  )
  const isWaiting = !result.value && !result.error && !source.error
  const drop = edit && {
    onDragOver: (event: DragEvent) => {
      event.preventDefault()
      setTarget(true)
    },
    onDragLeave: () => setTarget(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault()
      setTarget(false)
      edit.onDrop()
    },
  }
  return (
    <article
      ref={element}
      class={`${cardStyles.card} ${styles.card} ${isTarget ? styles.target : ''}`}
      data-width={card.width}
      aria-label={card.name}
      {...drop}
    >
      {edit ? (
        <CardControls card={card} {...edit} />
      ) : (
        <header>
          <h2>
            {source.question === null ? (
              card.name
            ) : (
              <a href={linkToExplore(source.question, source.display, source.savedId)}>{card.name}</a>
            )}
          </h2>
          {result.value && <CardFiles name={card.name} result={result.value} isOld={result.isOld} />}
        </header>
      )}
      <Scrollable
        label={`Answer of ${card.name}`}
        class={isWaiting ? `${styles.answer} ${styles.waiting}` : styles.answer}
      >
        {source.error && <Failure error={source.error} onRetry={saved?.reload} />}
        {source.isApart && (
          <p class={textStyles.hint}>The date range and the filter of the board do not apply to this card.</p>
        )}
        {result.error && <Failure error={result.error} onRetry={result.reload} />}
        {isWaiting && <Loading what={card.name} />}
        {result.value && (
          <div class={loadingStyles.answer} aria-busy={result.isLoading}>
            <DrillDownArea place={card.id}>
              <AnswerNotes result={result.value} />
              <RowLimitContext.Provider value={MAX_ROWS}>
                <AnswerView {...result.value} display={source.display} />
              </RowLimitContext.Provider>
            </DrillDownArea>
          </div>
        )}
      </Scrollable>
    </article>
  )
}

interface CardFilesProps {
  name: string
  result: ComparedAnswer
  /** whether the result is of an earlier range or filter */
  isOld: boolean
}

function CardFiles({ name, result: { answer, before }, isOld }: CardFilesProps) {
  const tables = buildTables(answer, before).filter(({ rows }) => rows.length > 0)
  return (
    <span class={styles.files}>
      {tables.map((table) => {
        const title = tables.length > 1 ? `${table.title} ` : ''
        return (
          <CsvButton
            key={table.title}
            name={`${name} ${title.toLowerCase()}`.trim()}
            rows={() => toCsvRows(table)}
            label={`${title}CSV`}
            about={`${title}CSV of ${name}`}
            isOld={isOld}
          />
        )
      })}
    </span>
  )
}

/** The question of a card, with the controls of the board. */
interface Source {
  /** null while loading */
  question: object | null
  display: Display
  /** id of the saved question that is asked exactly as it is saved; empty if there is none */
  savedId: string
  /** whether the board's controls do not apply, because the page cannot edit the question */
  isApart: boolean
  error: Error | null
}

function findSource(card: BoardCard, saved: Loaded<SavedQuestion[]> | null, controls: BoardControls): Source {
  const { found, error, ...own } = findOwn(card, saved)
  const applied = own.question && applyControls(own.question, own.display, controls, Date.now())
  const isApart = own.question !== null && applied === null
  const asked = applied ?? own
  // “Save changes” in Explore would give everyone the range and the filter of this board.
  const isAsSaved = found !== undefined && isSameJson(tidy(asked), tidy(found))
  return { ...asked, savedId: isAsSaved ? found.id : '', isApart, error }
}

/** A question and its display with the fields in one order, and without defaults. */
function tidy({ question, display }: { question: object | null; display: unknown }): unknown[] {
  const draft = parseDraft(question)
  return [draft ? toQuestion(draft) : question, parseDisplay(display)]
}

interface Own extends Pick<Source, 'question' | 'display' | 'error'> {
  /** the saved question that the card shows */
  found?: SavedQuestion
}

function findOwn({ question, display }: BoardCard, saved: Loaded<SavedQuestion[]> | null): Own {
  if (!('saved' in question)) return { question, display: parseDisplay(display), error: null }
  const found = saved?.value?.find(({ id }) => id === question.saved)
  if (!found) {
    const isDeleted = saved?.value != null && !saved.isLoading
    const error = isDeleted ? new Error('Its saved question has been deleted.') : (saved?.error ?? null)
    return { question: null, display: {}, error }
  }
  return { question: found.question, display: parseDisplay(display ?? found.display), error: null, found }
}

/** Whether an element is in the viewport. */
function useInView(element: { current: Element | null }): boolean {
  const [isInView, setInView] = useState(false)
  useEffect(() => {
    if (!element.current) return
    const observer = new IntersectionObserver(([entry]) => setInView(entry?.isIntersecting ?? false), {
      rootMargin: MARGIN,
    })
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [element])
  return isInView
}
