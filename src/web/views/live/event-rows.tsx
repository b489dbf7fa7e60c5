import type { Context } from '../../../contract/context.js'
import type { ExactEvent } from '../../api/events.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatMoment } from '../../lib/format.js'
import { labelCountry } from '../../lib/intl.js'
import { linkTo } from '../../lib/route.js'
import * as eventLinkStyles from '../event/event-link.module.css'
import * as styles from './event-rows.module.css'

interface EventRowsProps {
  /** newest first */
  events: ExactEvent[]
  /** builds the link to an event */
  toLink: (eventId: string) => string
}

/** Characters of properties shown per row. */
const PREVIEW_LENGTH = 300

/** Events as a list, one line each if there is room. */
export function EventRows({ events, toLink }: EventRowsProps) {
  return (
    <ol class={styles.eventRows} aria-label="Events, newest first">
      {events.map((event) => (
        <li key={event.eventId}>
          <EventRow event={event} link={toLink(event.eventId)} />
        </li>
      ))}
    </ol>
  )
}

/** The country and the device of a sender, such as `Austria, mobile`. */
function labelSender({ country, device, bot }: Context): string {
  return [country && labelCountry(country), bot ? 'bot' : device].filter((part) => part !== undefined).join(', ')
}

function EventRow({ event, link }: { event: ExactEvent; link: string }) {
  return (
    <>
      <time dateTime={new Date(event.timestamp).toISOString()}>{formatMoment(event.timestamp)}</time>
      <a class={eventLinkStyles.eventLink} href={link}>
        <bdi>{escapeInvisible(event.event)}</bdi>
      </a>
      <a
        class={styles.userLink}
        href={linkTo(['users', event.distinct_id])}
        aria-label={`User ${escapeInvisible(event.distinct_id)}`}
      >
        <bdi>{escapeInvisible(event.distinct_id)}</bdi>
      </a>
      <span class={styles.details}>
        {event.context && <small>{escapeInvisible(labelSender(event.context))} </small>}
        <code>{escapeInvisible(event.text.slice(0, PREVIEW_LENGTH))}</code>
      </span>
    </>
  )
}
