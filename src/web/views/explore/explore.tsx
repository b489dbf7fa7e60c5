import { useMemo, useState } from 'preact/hooks'
import { type Asked, ask } from '../../api/ask.js'
import { CallError } from '../../api/call.js'
import { Names, NamesContext } from '../../lib/names.js'
import {
  asKind,
  compact,
  type Display,
  type Draft,
  exploreLink,
  filled,
  finished,
  gapsOf,
  type Kind,
  newQuestion,
  shownBy,
} from '../../lib/question.js'
import { go } from '../../lib/route.js'
import { useDebounced } from '../../lib/use-debounced.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { Segments } from '../../ui/choose.js'
import { Failure, Loading } from '../../ui/notice.js'
import type { ViewProps } from '../view-props.js'
import { AnswerPanel } from './answer-panel.js'
import { Builder } from './builder.js'
import { type Fault, FaultsContext } from './faults.js'
import { JsonEditor } from './json-editor.js'
import { SavedBar } from './saved-bar.js'

const KINDS: readonly (readonly [Kind, string])[] = [
  ['series', 'Series'],
  ['funnel', 'Funnel'],
  ['retention', 'Retention'],
  ['paths', 'Paths'],
]
/** Somebody who is still choosing is not asked for. */
const SETTLED_MS = 300

/** Questions by choosing from what there is; the question is in the link. */
export default function Explore({ signIn, route }: ViewProps) {
  const names = useMemo(() => new Names(), [])
  const shown = shownBy(route.query)
  const first = useLoaded(shown.text === '' ? 'first' : null, () => names.events(''))
  if (shown.text === '') {
    if (first.error) return <Failure error={first.error} onRetry={first.reload} />
    if (first.isLoading) return <Loading what="the names of events" />
  }
  const text = shown.text || JSON.stringify(firstQuestion(first.value?.[0]?.value ?? ''))
  return (
    <NamesContext.Provider value={names}>
      <Question text={text} display={shown.display} saved={shown.saved} canSave={signIn.kind === 'secret'} />
    </NamesContext.Provider>
  )
}

function firstQuestion(event: string): object {
  return compact(newQuestion('series', event, Intl.DateTimeFormat().resolvedOptions().timeZone))
}

interface QuestionProps {
  text: string
  display: Display
  saved: string
  canSave: boolean
}

function Question({ text, display, saved, canSave }: QuestionProps) {
  const question = useMemo(() => parsed(text), [text])
  const draft = useMemo(() => filled(question), [question])
  const [isText, setText] = useState(false)
  const gaps = draft ? gapsOf(draft) : []
  const asked = useAnswer(question, display, gaps.length > 0)
  const faults = [...gaps, ...(asked.error instanceof CallError ? asked.error.details : [])]
  const show = (next: unknown, how: Display = display) => go(exploreLink(next, how, saved), 'replace')
  const change = (next: Draft, how: Display = display) => show(compact(next), how)
  return (
    <FaultsContext.Provider value={faults}>
      <header class="explore-header">
        <h1>Explore</h1>
        <SavedBar
          question={gaps.length > 0 ? undefined : asAsked(question, draft)}
          display={display}
          saved={saved}
          canSave={canSave}
        />
      </header>
      <div class="explore">
        <div class="card builder">
          {draft && !isText ? (
            <>
              <Segments
                label="Kind of question"
                value={draft.kind}
                options={KINDS}
                onChange={(kind) => change(asKind(draft, kind))}
              />
              <Builder draft={draft} onChange={change} />
            </>
          ) : (
            <JsonEditor
              text={text}
              reason={draft ? '' : 'The fields of the page do not fit this question.'}
              onChange={show}
            />
          )}
          {draft && (
            <button type="button" class="link small" onClick={() => setText(!isText)}>
              {isText ? 'Edit it field by field' : 'Edit it as JSON'}
            </button>
          )}
        </div>
        <AnswerPanel
          question={question}
          draft={draft}
          display={display}
          asked={asked}
          gaps={gaps.map(({ message }: Fault) => message)}
          onChange={change}
        />
      </div>
    </FaultsContext.Provider>
  )
}

/** The question without filters that are not filled in yet: what the answer is of. */
function asAsked(question: unknown, draft: Draft | null): unknown {
  if (!draft) return question
  const whole = finished(draft)
  return JSON.stringify(whole) === JSON.stringify(draft) ? question : compact(whole)
}

/** Asks once nothing has changed for a while; what is not wanted any more is cancelled. */
function useAnswer(question: unknown, display: Display, hasGaps: boolean) {
  const { range, compare } = display
  const key = useDebounced(
    hasGaps || question === undefined ? null : JSON.stringify([question, range, compare]),
    SETTLED_MS,
  )
  return useLoaded<Asked>(key, (signal) => {
    const [question, range, compare] = JSON.parse(key ?? '[]')
    return ask(question, { range, compare }, { signal })
  })
}

/** @returns undefined if it is not JSON */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
