import { linkTo } from '../../lib/route.js'
import type { ViewProps } from '../view-props.js'
import { DeadLetters } from './dead-letters.js'
import { EventProperties } from './event-properties.js'
import { EventTable } from './event-table.js'

/** What is stored: names of events and their properties, and what could not be stored. */
export default function Data({ signIn, route: { rest, query } }: ViewProps) {
  const [part = 'events', name] = rest
  if (part === 'events' && name !== undefined) return <EventProperties key={name} event={name} />
  const parts = { events: 'Events', 'dead-letters': 'Dead letters' }
  return (
    <>
      <h1>Data</h1>
      <nav class="data-parts" aria-label="Data">
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
      {part === 'dead-letters' ? <DeadLetters signIn={signIn} query={query} /> : <EventTable query={query} />}
    </>
  )
}
