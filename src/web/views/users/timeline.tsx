import type { ExactEvent } from '../../api/events.js'
import type { Access } from '../../api/sign-in.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatClock, formatCount, formatDuration } from '../../lib/format.js'
import { navigate } from '../../lib/navigation.js'
import { getProjectSettings } from '../../lib/project-settings.js'
import { linkTo } from '../../lib/route.js'
import { buildTimeline, findSessionsFrom, type Visit } from '../../lib/timeline.js'
import { findVisitOrigin } from '../../lib/visit-origin.js'
import { Button } from '../../ui/button.js'
import { Failure, Loading } from '../../ui/notice.js'
import * as textStyles from '../../ui/text.module.css'
import { EventDialog } from '../event/event-dialog.js'
import { EventRow } from '../event/event-row.js'
import * as eventRowStyles from '../event/event-row.module.css'
import { useSessionsSince } from './sessions.js'
import * as styles from './timeline.module.css'
import { useUserEvents } from './use-events.js'

interface TimelineProps {
  /** names of the user, the canonical one first */
  names: string[]
  eventId: string | undefined
  access: Access
}

/** The events of a user by day and session, by the project's definition of sessions, the latest first. */
export function Timeline({ names, eventId, access }: TimelineProps) {
  const [distinctId = ''] = names
  const { events, leftOut, hasMore, isLoading, error, readMore, change } = useUserEvents(names)
  const definition = getProjectSettings().sessions
  const calls = useSessionsSince(names, definition === 'id' ? findSessionsFrom(events) : null)
  return (
    <section class={styles.timeline} aria-label="Events" aria-busy={isLoading}>
      <h2>Events</h2>
      {buildTimeline({ events, leftOut, hasMore, calls }, definition).map((day) => (
        <section key={day.name} class={styles.day}>
          <h3>{day.name}</h3>
          {day.visits.map((visit) => (
            <VisitRows key={visit.events[0]?.eventId} visit={visit} distinctId={distinctId} />
          ))}
        </section>
      ))}
      {error && <Failure error={error} onRetry={readMore} />}
      {isLoading && <Loading what="events" />}
      {events.length === 0 && !hasMore && !isLoading && !error && (
        <p class={textStyles.hint}>This user has no events.</p>
      )}
      {hasMore && !isLoading && !error && <Button onClick={readMore}>Show earlier events</Button>}
      {eventId !== undefined && (
        <EventDialog
          key={eventId}
          eventId={eventId}
          access={access}
          onClose={() => navigate(linkTo(['users', distinctId]))}
          onChange={(changed) => change(eventId, changed)}
        />
      )}
    </section>
  )
}

function VisitRows({ visit, distinctId }: { visit: Visit<ExactEvent>; distinctId: string }) {
  const { isSession, sessionId, events, start, end, mayBeginEarlier } = visit
  const rows = (
    <ol class={eventRowStyles.rows}>
      {events.map((event) => (
        <EventRow
          key={event.eventId}
          event={event}
          link={linkTo(['users', distinctId, event.eventId])}
          format={formatClock}
        >
          {event.distinct_id !== distinctId && (
            <small>
              as <bdi>{escapeInvisible(event.distinct_id)}</bdi>
            </small>
          )}
        </EventRow>
      ))}
    </ol>
  )
  if (!isSession) return rows
  const origin = mayBeginEarlier ? null : findVisitOrigin(events)
  return (
    <div class={styles.visit}>
      <p>
        <small>
          {sessionId === null ? 'Visit' : 'Session '}
          {sessionId !== null && <bdi>{escapeInvisible(sessionId)}</bdi>}
          {(events.length > 1 || end > start) &&
            `, ${formatCount(events.length, 'event')} in ${formatDuration(end - start)}`}
          {mayBeginEarlier && ', may have begun earlier'}
          {origin && (
            <>
              {origin.path !== '' && (
                <>
                  , began at <bdi>{escapeInvisible(origin.path)}</bdi>
                </>
              )}
              {origin.source !== null && (
                <>
                  , from <bdi>{escapeInvisible(origin.source)}</bdi>
                </>
              )}
            </>
          )}
        </small>
      </p>
      {rows}
    </div>
  )
}
