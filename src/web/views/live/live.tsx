import { formatCount } from '../../lib/format.js'
import { navigate } from '../../lib/navigation.js'
import { linkTo } from '../../lib/route.js'
import * as liveStatusStyles from '../../ui/live-status.module.css'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { EventDialog } from '../event/event-dialog.js'
import type { ViewProps } from '../view-props.js'
import { EventRows } from './event-rows.js'
import * as styles from './live.module.css'
import { FilterFields, type FilterValues, hasNoFilters, parseFilters } from './live-filters.js'
import { UnknownEvent } from './unknown-event.js'
import { type Live, useLive } from './use-live.js'

/** New events, newest first. */
export default function LiveView({ access, route }: ViewProps) {
  const filters = parseFilters(route.query)
  const [eventId] = route.rest
  const live = useLive(filters)
  const show = (next: FilterValues) => navigate(linkTo(['live'], { ...next }), 'replace')
  return (
    <div>
      <header class={pageHeaderStyles.header}>
        <h1>Live</h1>
        <Status live={live} />
        <button type="button" class={styles.pause} onClick={live.isPaused ? live.resume : live.pause}>
          {live.isPaused ? 'Resume' : 'Pause'}
        </button>
      </header>
      <FilterFields filters={filters} onChange={show} />
      {live.state === 'failed' && live.error && <Failure error={live.error} />}
      {live.waiting > 0 && (
        <button type="button" class={styles.newEvents} onClick={live.resume}>
          Show {formatCount(live.waiting, 'new event')}
        </button>
      )}
      <Rows live={live} filters={filters} onChange={show} />
      {eventId !== undefined && (
        <EventDialog
          key={eventId}
          eventId={eventId}
          access={access}
          onClose={() => navigate(linkTo(['live'], { ...filters }))}
          onChange={(changed) => live.change(eventId, changed)}
        />
      )}
    </div>
  )
}

interface RowsProps {
  live: Live
  filters: FilterValues
  onChange: (filters: FilterValues) => void
}

function Rows({ live, filters, onChange }: RowsProps) {
  if (live.events.length > 0) {
    return <EventRows events={live.events} toLink={(eventId) => linkTo(['live', eventId], { ...filters })} />
  }
  if (live.state === 'failed') return null
  if (!live.isLoaded) return <Loading what="the latest events" />
  if (hasNoFilters(filters)) return <Empty title="No events yet">Events appear here as they arrive.</Empty>
  return (
    <>
      {filters.event !== '' && (
        <UnknownEvent event={filters.event} onAccept={(event) => onChange({ ...filters, event })} />
      )}
      <Empty title="No matching events yet">They appear here as they arrive. Or remove a filter.</Empty>
    </>
  )
}

const STATUS = { connecting: 'Connecting…', live: 'Live', broken: 'Reconnecting…', failed: 'Stopped' }

function Status({ live: { state, error, isPaused } }: { live: Live }) {
  const kind = isPaused && state === 'live' ? 'paused' : state
  return (
    <p class={liveStatusStyles.status} data-state={kind} role="status">
      {kind === 'paused' ? 'Paused' : STATUS[state]}
      {state === 'broken' && error && <small> {error.message}</small>}
    </p>
  )
}
