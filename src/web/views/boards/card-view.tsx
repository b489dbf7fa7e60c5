import { useRef, useState } from 'preact/hooks'
import type { BoardCard } from '../../../contract/responses.js'
import { type ComparedAnswer, fetchAnswer } from '../../api/answers.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import { AnswerView } from '../../charts/answer-view.js'
import { useDrillDown } from '../../charts/drill-down.js'
import { buildTables, toCsvRows } from '../../lib/answer-table.js'
import { type Display, linkToExplore, parseDisplay } from '../../lib/question.js'
import { type Loaded, useLoaded } from '../../lib/use-loaded.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Failure, Loading, Warnings } from '../../ui/notice.js'
import { Scrollable } from '../../ui/scrollable.js'
import * as textStyles from '../../ui/text.module.css'
import { CardControls, type CardControlsProps } from './card-controls.js'
import * as styles from './card-view.module.css'
import { useInView } from './use-in-view.js'

interface CardViewProps {
  card: BoardCard
  /** index on the board; cards at the top load first */
  place: number
  saved: Loaded<SavedQuestion[]> | null
  /** incremented at each refresh; only cards in view load again */
  round: number
  edit: (Omit<CardControlsProps, 'card'> & { onDrop: () => void }) | undefined
}

/** A question and its answer, with a link to Explore. */
export function CardView({ card, place, saved, round, edit }: CardViewProps) {
  const element = useRef<HTMLElement>(null)
  const isInView = useInView(element)
  const [isTarget, setTarget] = useState(false)
  const lastRound = useRef<number | null>(null)
  if (isInView) lastRound.current = round
  const source = findSource(card, saved)
  const { range, compare } = source.display
  const canAsk = source.question !== null && lastRound.current !== null
  const result = useLoaded<ComparedAnswer>(
    canAsk ? JSON.stringify([lastRound.current, source.question, range, compare]) : null,
    (signal) => fetchAnswer(source.question, source.display, { signal, priority: place }),
  )
  const isWaiting = !result.value && !result.error && !source.error && !source.isMissing
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
          {result.value && <CardFiles name={card.name} result={result.value} />}
        </header>
      )}
      <Scrollable
        label={`Answer of ${card.name}`}
        class={isWaiting ? `${styles.answer} ${styles.waiting}` : styles.answer}
      >
        {source.error && <Failure error={source.error} onRetry={saved?.reload} />}
        {source.isMissing && (
          <p class={textStyles.hint}>The saved question of this card was deleted. Remove the card.</p>
        )}
        {result.error && <Failure error={result.error} onRetry={result.reload} />}
        {isWaiting && <Loading what={card.name} />}
        {result.value && <CardAnswer result={result.value} display={source.display} />}
      </Scrollable>
    </article>
  )
}

function CardFiles({ name, result: { answer, before } }: { name: string; result: ComparedAnswer }) {
  const tables = buildTables(answer, before).filter(({ rows }) => rows.length > 0)
  return (
    <span class={styles.files}>
      {tables.map((table) => {
        const title = tables.length > 1 ? ` ${table.title.toLowerCase()}` : ''
        return (
          <CsvButton
            key={table.title}
            name={`${name}${title}`}
            rows={() => toCsvRows(table)}
            label={`CSV${title}`}
            about={`CSV of ${name}${title}`}
          />
        )
      })}
    </span>
  )
}

function CardAnswer({ result: { answer, before }, display }: { result: ComparedAnswer; display: Display }) {
  const { onDrillDown, dialog } = useDrillDown()
  return (
    <>
      <Warnings warnings={answer.warnings} />
      <AnswerView answer={answer} before={before} display={display} onDrillDown={onDrillDown} />
      {dialog}
    </>
  )
}

/** The question of a card. */
interface Source {
  /** null while loading, or if missing */
  question: object | null
  display: Display
  savedId: string
  isMissing: boolean
  error: Error | null
}

function findSource({ question, display }: BoardCard, saved: Loaded<SavedQuestion[]> | null): Source {
  const own = { question, display: parseDisplay(display), savedId: '', isMissing: false, error: null }
  if (!('saved' in question)) return own
  const found = saved?.value?.find(({ id }) => id === question.saved)
  const isMissing = saved?.value != null && !found
  if (!found) return { ...own, question: null, isMissing, error: saved?.error ?? null }
  return { ...own, question: found.question, display: parseDisplay(display ?? found.display), savedId: found.id }
}
