import type { ExactEvent } from '../../api/events.js'
import { visible } from '../../lib/escape-invisible.js'
import { momentText } from '../../lib/format.js'
import { linkTo } from '../../lib/navigation.js'

interface EventRowsProps {
  /** newest first */
  events: ExactEvent[]
  /** the link that opens an event */
  linkOf: (eventId: string) => string
}

/** Of properties, more does not fit into a row. */
const PREVIEW_LENGTH = 300

/** Events as a list, each one line where there is room. */
export function EventRows({ events, linkOf }: EventRowsProps) {
  return (
    <ol class="event-rows" aria-label="Events, newest first">
      {events.map((event) => (
        <li key={event.eventId}>
          <EventRow event={event} link={linkOf(event.eventId)} />
        </li>
      ))}
    </ol>
  )
}

function EventRow({ event, link }: { event: ExactEvent; link: string }) {
  return (
    <>
      <time dateTime={new Date(event.timestamp).toISOString()}>{momentText(event.timestamp)}</time>
      <a class="event-link" href={link}>
        <bdi>{visible(event.event)}</bdi>
      </a>
      <a
        class="user-link"
        href={linkTo(['users', event.distinct_id])}
        aria-label={`User ${visible(event.distinct_id)}`}
      >
        <bdi>{visible(event.distinct_id)}</bdi>
      </a>
      <code>{visible(event.text.slice(0, PREVIEW_LENGTH))}</code>
    </>
  )
}
