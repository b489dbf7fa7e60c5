import type { ExactEvent } from '../../api/events.js'
import { readSession } from '../../api/users.js'
import { visible } from '../../lib/escape-invisible.js'
import { timeText } from '../../lib/format.js'
import { linkTo } from '../../lib/navigation.js'
import { sessionIdOf } from '../../lib/timeline.js'
import { useLoaded } from '../../lib/use-loaded.js'

/** What an event says beside its properties. */
export function EventFacts({ event }: { event: ExactEvent }) {
  const sessionId = sessionIdOf(event)
  return (
    <dl class="facts">
      <dt>Time</dt>
      <dd>
        <time dateTime={isoText(event.timestamp)}>{timeText(event.timestamp)}</time>{' '}
        <small>{isoText(event.timestamp)}</small>
      </dd>
      <dt>User</dt>
      <dd>
        <a href={linkTo(['users', event.distinct_id])}>
          <bdi>{visible(event.distinct_id)}</bdi>
        </a>
      </dd>
      {sessionId !== null && (
        <>
          <dt>Session</dt>
          <dd>
            <SessionFact id={sessionId} />
          </dd>
        </>
      )}
      <dt>Event ID</dt>
      <dd>
        <code>{event.eventId}</code>
      </dd>
      {event.insert_id !== undefined && (
        <>
          <dt>Insert ID</dt>
          <dd>
            <code>{visible(event.insert_id)}</code>
          </dd>
        </>
      )}
    </dl>
  )
}

/** A session by its id, and what is known of it. */
function SessionFact({ id }: { id: string }) {
  const { value } = useLoaded(id, (signal) => readSession(id, signal))
  return (
    <>
      {value ? (
        <a href={linkTo(['users', value.distinct_id], { session: id })}>
          <bdi>{visible(id)}</bdi>
        </a>
      ) : (
        <bdi>{visible(id)}</bdi>
      )}
      {value && (
        <small>
          {' '}
          {value.state}, since {timeText(value.started_at)}
        </small>
      )}
    </>
  )
}

/** Exact, which local time is not. */
function isoText(timestamp: number): string {
  return new Date(timestamp).toISOString()
}
