import { keptSince } from '../../contract/project-settings.js'
import type { Warning } from '../../contract/warning.js'
import type { ComparedAnswer } from '../api/answers.js'
import { formatCount, formatDate } from '../lib/format.js'
import { getProjectSettings } from '../lib/project-settings.js'
import { findInstant } from '../lib/range.js'
import { Warnings } from '../ui/notice.js'
import * as textStyles from '../ui/text.module.css'

interface AnswerNotesProps {
  result: ComparedAnswer
  /** applies a warning's suggestion to the question */
  onAccept?: (warning: Warning) => void
}

/** Why the numbers of an answer may be misleading; nothing if there is no reason. */
export function AnswerNotes({ result, onAccept }: AnswerNotesProps) {
  const { warnings, pending } = result.answer
  const expired = describeExpired(result, Date.now())
  return (
    <>
      <Warnings warnings={warnings} {...(onAccept && { onAccept })} />
      {pending > 0 && (
        <p class={textStyles.hint}>{formatCount(pending, 'recent event is', 'recent events are')} not counted yet.</p>
      )}
      {expired !== '' && <p class={textStyles.hint}>{expired}</p>}
    </>
  )
}

/** Explains that the project no longer has all events of a period; empty if it has them. @param now epoch ms */
function describeExpired({ answer, before }: ComparedAnswer, now: number): string {
  const { keep } = getProjectSettings()
  if (keep.events === null) return ''
  const since = keptSince(keep.events, now)
  const reachesBack = ({ from, timezone }: { from: string | number; timezone: string }) =>
    (findInstant(from, timezone) ?? since) < since
  const [ofAnswer, ofBefore] = [reachesBack(answer.query), before !== null && reachesBack(before.query)]
  if (!ofAnswer && !ofBefore) return ''
  const kept = `Events before ${formatDate(since)} are no longer kept.`
  return ofAnswer ? kept : `${kept} The previous period begins earlier, so its numbers are not complete.`
}
