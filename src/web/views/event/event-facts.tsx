import type { ExactEvent } from '../../api/events.js'
import { readSession } from '../../api/users.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatTime } from '../../lib/format.js'
import { linkTo } from '../../lib/route.js'
import * as factsStyles from '../../ui/facts.module.css'

/** The fields of an event other than its properties. */
export function EventFacts({ event }: { event: ExactEvent }) {
  return (
    <dl class={factsStyles.facts}>
      <dt>Time</dt>
      <dd>
        <time dateTime={formatIso(event.timestamp)}>{formatTime(event.timestamp)}</time>{' '}
        <small>{formatIso(event.timestamp)}</small>
      </dd>
      <dt>User</dt>
      <dd>
        <a href={linkTo(['users', event.distinct_id])}>
          <bdi>{escapeInvisible(event.distinct_id)}</bdi>
        </a>
      </dd>
      {event.session_id !== undefined && (
        <>
          <dt>Session</dt>
          <dd>
            <SessionFact id={event.session_id} />
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
            <code>{escapeInvisible(event.insert_id)}</code>
          </dd>
        </>
      )}
    </dl>
  )
}

/** A session id, with the state of the session if it is known. */
function SessionFact({ id }: { id: string }) {
  const { value } = useLoaded(id, (signal) => readSession(id, signal))
  return (
    <>
      {value ? (
        <a href={linkTo(['users', value.distinct_id], { session: id })}>
          <bdi>{escapeInvisible(id)}</bdi>
        </a>
      ) : (
        <bdi>{escapeInvisible(id)}</bdi>
      )}
      {value && (
        <small>
          {' '}
          {value.state}, since {formatTime(value.started_at)}
        </small>
      )}
    </>
  )
}

/** Includes milliseconds and UTC, unlike the local time. */
function formatIso(timestamp: number): string {
  return new Date(timestamp).toISOString()
}
