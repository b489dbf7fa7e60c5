import { linkTo } from '../../lib/route.js'
import * as tabsStyles from '../../ui/tabs.module.css'
import type { ViewProps } from '../view-props.js'
import { DeadLetters } from './dead-letters.js'
import { EventProperties } from './event-properties.js'
import { EventTable } from './event-table.js'

/** The data of a project: event names, properties and dead letters. */
export default function Data({ access, route: { rest, query } }: ViewProps) {
  const [part = 'events', name] = rest
  if (part === 'events' && name !== undefined) return <EventProperties key={name} event={name} />
  const parts = { events: 'Events', 'dead-letters': 'Dead letters' }
  return (
    <>
      <h1>Data</h1>
      <nav class={tabsStyles.row} aria-label="Data">
        {Object.entries(parts).map(([id, title]) => (
          <a
            key={id}
            href={linkTo(id === 'events' ? ['data'] : ['data', id])}
            aria-current={id === part ? 'page' : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      {part === 'dead-letters' ? <DeadLetters access={access} query={query} /> : <EventTable query={query} />}
    </>
  )
}
