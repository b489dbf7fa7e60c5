import { fetchAnswer } from '../../api/answers.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { Warnings } from '../../ui/notice.js'

interface UnknownEventProps {
  /** name of the event in the filter */
  event: string
  /** called with the name that was probably meant */
  onAccept: (event: string) => void
}

/**
 * Says if the project has had no event of this name, which may be new or misspelled. A question tells, because the list
 * of events has no warnings. Its failure is not shown: the warning is only a hint.
 */
export function UnknownEvent({ event, onAccept }: UnknownEventProps) {
  const { value } = useLoaded(event, async (signal) => {
    const question = { kind: 'series', series: [{ event }], interval: 'none' }
    return (await fetchAnswer(question, { range: 'today' }, { signal })).answer.warnings
  })
  return <Warnings warnings={value ?? []} onAccept={({ suggestion }) => onAccept(String(suggestion))} />
}
