import type { ComponentChildren } from 'preact'
import type { ExactEvent } from '../../api/events.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import * as styles from './event-row.module.css'

/** Characters of properties shown per row. */
const PREVIEW_LENGTH = 300

interface EventRowProps {
  event: ExactEvent
  link: string
  /** formats the time */
  format: (instant: number) => string
  /** shown before the properties */
  note?: string
  /** shown after the name */
  children?: ComponentChildren
}

/** An event as an item of a list; a click opens it. */
export function EventRow({ event, link, format, note = '', children }: EventRowProps) {
  return (
    <li>
      <time dateTime={new Date(event.timestamp).toISOString()}>{format(event.timestamp)}</time>
      <a class={styles.link} href={link}>
        <bdi>{escapeInvisible(event.event)}</bdi>
      </a>
      {children}
      <span class={styles.details}>
        {note !== '' && <small>{escapeInvisible(note)} </small>}
        <code>{escapeInvisible(event.text.slice(0, PREVIEW_LENGTH))}</code>
      </span>
    </li>
  )
}
