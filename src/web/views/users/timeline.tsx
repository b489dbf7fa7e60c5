import type { Session } from '../../../contract/responses.js'
import type { ExactEvent } from '../../api/events.js'
import type { SignIn } from '../../api/sign-in.js'
import { clockText, dayText, durationText, numberText } from '../../lib/format.js'
import { go, linkTo } from '../../lib/route.js'
import { timelineOf, type Visit } from '../../lib/timeline.js'
import { visible } from '../../lib/visible.js'
import { Failure, Loading } from '../../ui/notice.js'
import { EventDialog } from '../event/event-dialog.js'
import { useEvents } from './use-events.js'

/** Of properties, more does not fit into a row. */
const PREVIEW_LENGTH = 300

interface TimelineProps {
  /** of the user, the first of which the others are other names of */
  names: string[]
  sessions: Session[]
  eventId: string | undefined
  signIn: SignIn
}

/** The events of a user by day and session, the latest first. */
export function Timeline({ names, sessions, eventId, signIn }: TimelineProps) {
  const [distinctId = ''] = names
  const { events, hasMore, isLoading, error, readMore, change } = useEvents(names)
  return (
    <section class="timeline" aria-label="Events" aria-busy={isLoading}>
      <h2>Events</h2>
      {timelineOf(events, sessions).map(({ at, visits }) => (
        <section key={at} class="day">
          <h3>{dayText(at)}</h3>
          {visits.map((visit) => (
            <VisitRows key={visit.events[0]?.eventId} visit={visit} distinctId={distinctId} />
          ))}
        </section>
      ))}
      {error && <Failure error={error} onRetry={readMore} />}
      {isLoading && <Loading what="events" />}
      {events.length === 0 && !isLoading && !error && <p class="hint">There are no events of this user.</p>}
      {hasMore && !isLoading && !error && (
        <button type="button" onClick={readMore}>
          Show earlier events
        </button>
      )}
      {eventId !== undefined && (
        <EventDialog
          key={eventId}
          eventId={eventId}
          signIn={signIn}
          onClose={() => go(linkTo(['users', distinctId]))}
          onChange={(changed) => change(eventId, changed)}
        />
      )}
    </section>
  )
}

function VisitRows({ visit: { sessionId, events }, distinctId }: { visit: Visit<ExactEvent>; distinctId: string }) {
  const rows = (
    <ol>
      {events.map((event) => (
        <li key={event.eventId}>
          <Row event={event} distinctId={distinctId} />
        </li>
      ))}
    </ol>
  )
  if (sessionId === null) return rows
  const span = (events[0]?.timestamp ?? 0) - (events.at(-1)?.timestamp ?? 0)
  return (
    <div class="visit">
      <p>
        <small>
          Session <bdi>{visible(sessionId)}</bdi>
          {events.length > 1 && `, ${numberText(events.length)} events in ${durationText(span)}`}
        </small>
      </p>
      {rows}
    </div>
  )
}

function Row({ event, distinctId }: { event: ExactEvent; distinctId: string }) {
  return (
    <>
      <time dateTime={new Date(event.timestamp).toISOString()}>{clockText(event.timestamp)}</time>
      <a class="event-link" href={linkTo(['users', distinctId, event.eventId])}>
        <bdi>{visible(event.event)}</bdi>
      </a>
      {event.distinct_id !== distinctId && (
        <small class="alias">
          as <bdi>{visible(event.distinct_id)}</bdi>
        </small>
      )}
      <code>{visible(event.text.slice(0, PREVIEW_LENGTH))}</code>
    </>
  )
}
