import type { Context } from '../../../contract/context.js'
import type { ExactEvent } from '../../api/events.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatMoment } from '../../lib/format.js'
import { labelCountry } from '../../lib/intl.js'
import { linkTo } from '../../lib/route.js'
import { EventRow } from '../event/event-row.js'
import * as eventRowStyles from '../event/event-row.module.css'
import * as styles from './event-rows.module.css'

interface EventRowsProps {
  /** newest first */
  events: ExactEvent[]
  /** builds the link to an event */
  toLink: (eventId: string) => string
}

/** Events as a list, one line each if there is room. */
export function EventRows({ events, toLink }: EventRowsProps) {
  return (
    <ol class={`${eventRowStyles.rows} ${styles.eventRows}`} aria-label="Events, newest first">
      {events.map((event) => (
        <EventRow
          key={event.eventId}
          event={event}
          link={toLink(event.eventId)}
          format={formatMoment}
          note={labelSender(event.context)}
        >
          <a
            class={styles.userLink}
            href={linkTo(['users', event.distinct_id])}
            aria-label={`User ${escapeInvisible(event.distinct_id)}`}
          >
            <bdi>{escapeInvisible(event.distinct_id)}</bdi>
          </a>
        </EventRow>
      ))}
    </ol>
  )
}

/** The country and the device of a sender, such as `Austria, mobile`; empty if they are unknown. */
function labelSender({ country, device, bot }: Context = {}): string {
  return [country && labelCountry(country), bot ? 'bot' : device].filter((part) => part !== undefined).join(', ')
}
