import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import { isSameJson } from '../../../contract/same-json.js'
import type { Warning } from '../../../contract/warning.js'
import { type ComparedAnswer, fetchAnswer } from '../../api/answers.js'
import { CallError } from '../../api/call.js'
import { InvalidFieldsContext } from '../../hooks/use-invalid-field.js'
import { type Loaded, useLoaded } from '../../hooks/use-loaded.js'
import { buildRequest } from '../../lib/build-request.js'
import { parseJson } from '../../lib/json-text.js'
import { navigate } from '../../lib/navigation.js'
import {
  completeDraft,
  convertDraft,
  createDraft,
  type Display,
  type Draft,
  dropIncompleteFilters,
  type ExploreState,
  findGaps,
  type Kind,
  linkToExplore,
  parseDraft,
  parseExploreQuery,
  toQuestion,
} from '../../lib/question.js'
import { formatDateIn } from '../../lib/range.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { SegmentedControl } from '../../ui/select.js'
import { useMoment } from '../range-fields.js'
import { Suggestions, SuggestionsContext } from '../suggestions.js'
import type { ViewProps } from '../view-props.js'
import { AnswerPanel } from './answer-panel.js'
import { Builder } from './builder.js'
import * as builderStyles from './builder.module.css'
import { applySuggestion, DoubtsContext, findDoubts } from './doubts.js'
import * as styles from './explore.module.css'
import { FieldErrorsContext } from './field-errors.js'
import { JsonEditor } from './json-editor.js'
import { SavedBar } from './saved-bar.js'

const KINDS: readonly (readonly [Kind, string])[] = [
  ['series', 'Series'],
  ['funnel', 'Funnel'],
  ['retention', 'Retention'],
  ['paths', 'Paths'],
]
const INVALID = 'Correct the number that is marked first.'
/** Debounce while the user is still editing, ms. */
const SETTLED_MS = 300

/** Builds questions from the events of the project; the question is part of the link. */
export default function Explore({ access, route }: ViewProps) {
  const suggestions = useMemo(() => new Suggestions(), [])
  const shown = parseExploreQuery(route.query)
  const first = useLoaded(shown.text === '' ? 'first' : null, () => suggestions.suggestEvents(''))
  if (shown.text === '') {
    if (first.error) return <Failure error={first.error} onRetry={first.reload} />
    if (first.isLoading) return <Loading what="the names of events" />
  }
  const text = shown.text || JSON.stringify(toQuestion(createDraft('series', first.value?.[0]?.value ?? '')))
  return (
    <SuggestionsContext.Provider value={suggestions}>
      <Question {...shown} text={text} canSave={access.keyKind === 'secret'} />
    </SuggestionsContext.Provider>
  )
}

interface QuestionProps extends ExploreState {
  canSave: boolean
}

function Question({ text, display, saved, canSave }: QuestionProps) {
  const question = useMemo(() => parseJson(text), [text])
  const draft = useMemo(() => parseDraft(question), [question])
  const [isText, setText] = useState(false)
  const [invalid, countInvalid] = useState(0)
  const gaps = draft ? findGaps(draft) : []
  const complete = useAnswerable(question, draft)
  // The question has the last valid number, which an invalid field no longer shows.
  const answerable = invalid > 0 ? undefined : complete
  const moment = useMoment({ ...draft, ...display })
  const result = useAnswer(answerable, display, formatDateIn(draft?.timezone ?? 'UTC', moment.now))
  // Missing choices are not errors.
  const fieldErrors = gaps.length === 0 && result.error instanceof CallError ? result.error.details : []
  const show = (next: unknown, how: Display = display) => navigate(linkToExplore(next, how, saved), 'replace')
  const change = (next: Draft, how: Display = display) => show(toQuestion(next), how)
  const { asked, answer: { warnings } = {} } = result.value ?? {}
  const doubts = useMemo(() => findDoubts(asked, warnings), [asked, warnings])
  const accept = (warning: Warning) => {
    const now = draft ? [toQuestion(draft), toQuestion(dropIncompleteFilters(draft)), answerable] : [question]
    const next = applySuggestion(warning, asked, now)
    if (next !== undefined) show(next)
  }
  return (
    <FieldErrorsContext.Provider value={fieldErrors}>
      <DoubtsContext.Provider value={doubts}>
        <header class={pageHeaderStyles.header}>
          <h1>Explore</h1>
          <SavedBar
            question={invalid > 0 || gaps.length > 0 ? undefined : dropUnfinishedFilters(question, draft)}
            display={display}
            saved={saved}
            canSave={canSave}
          />
        </header>
        <div class={styles.explore}>
          <div class={`${cardStyles.card} ${builderStyles.builder}`}>
            {draft && !isText ? (
              <>
                <SegmentedControl
                  label="Kind of question"
                  value={draft.kind}
                  options={KINDS}
                  onChange={(kind) => change(convertDraft(draft, kind))}
                />
                <InvalidFieldsContext.Provider value={countInvalid}>
                  <Builder draft={draft} onChange={change} />
                </InvalidFieldsContext.Provider>
              </>
            ) : (
              <JsonEditor
                text={text}
                reason={draft ? '' : 'This question can only be edited as JSON.'}
                onChange={show}
              />
            )}
            {draft && (
              <Button look="link" onClick={() => setText(!isText)}>
                {isText ? 'Edit it field by field' : 'Edit it as JSON'}
              </Button>
            )}
          </div>
          <AnswerPanel
            question={invalid > 0 ? undefined : question}
            draft={draft}
            display={display}
            moment={moment}
            result={result}
            gap={invalid > 0 ? INVALID : gaps[0]?.message}
            onChange={change}
            onAccept={accept}
          />
        </div>
      </DoubtsContext.Provider>
    </FieldErrorsContext.Provider>
  )
}

/** The question that is sent: without incomplete filters. */
function dropUnfinishedFilters(question: unknown, draft: Draft | null): unknown {
  if (!draft) return question
  const whole = dropIncompleteFilters(draft)
  return isSameJson(whole, draft) ? question : toQuestion(whole)
}

/** An answer with the question that was sent, apart from its range. */
interface AskedAnswer extends ComparedAnswer {
  asked: unknown
}

/** The question to answer: while a choice is missing, the question with the last complete events. */
function useAnswerable(question: unknown, draft: Draft | null): unknown {
  const last = useRef<Draft | null>(null)
  if (!draft) return question
  const complete = completeDraft(draft, last.current)
  last.current = complete ?? last.current
  return complete === draft ? question : ((complete && toQuestion(complete)) ?? undefined)
}

/**
 * Fetches the answer after a debounce; superseded requests are cancelled.
 * @param today date on which relative ranges depend
 */
function useAnswer(question: unknown, display: Display, today: string): Loaded<AskedAnswer> {
  const { range, compare } = display
  const asked = question === undefined ? null : formatExactJson([question, range, compare, today])
  const key = useDebounced(asked, SETTLED_MS)
  const loaded = useLoaded<AskedAnswer>(key, async (signal) => {
    const [question, range, compare] = JSON.parse(key ?? '[]')
    const answer = await fetchAnswer(question, { range, compare }, { signal })
    return { ...answer, asked: buildRequest(question, { range, compare }, { now: Date.now(), first: null }) }
  })
  return { ...loaded, isOld: loaded.isOld || (loaded.value !== null && key !== asked) }
}

/** A value that has been stable for a while; the first one immediately. */
function useDebounced<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return settled
}
