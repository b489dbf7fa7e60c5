import type { Session as StoredSession } from '../../../contract/responses.js'
import { call } from '../../api/call.js'
import type { ExactEvent } from '../../api/events.js'
import { timeText } from '../../lib/format.js'
import { linkTo } from '../../lib/route.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { visible } from '../../lib/visible.js'

/** As Tallyhouse's own client, PostHog and Amplitude's exports call it. */
const SESSION_PROPERTIES = ['session_id', '$session_id', 'sessionId']

/** What an event says beside its properties. */
export function EventFacts({ event }: { event: ExactEvent }) {
  const sessionId = sessionOf(event)
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
  const { value } = useLoaded(id, async (signal) => {
    return (
      await call<{ session: StoredSession }>('GET', `/public/sessions/${encodeURIComponent(id)}`, undefined, signal)
    ).session
  })
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

function sessionOf({ properties }: ExactEvent): string | null {
  for (const name of SESSION_PROPERTIES) {
    const id = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (typeof id === 'string' && id !== '') return id
  }
  return null
}

/** Exact, which local time is not. */
function isoText(timestamp: number): string {
  return new Date(timestamp).toISOString()
}
