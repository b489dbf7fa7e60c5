import { lookForTrouble } from '../../api/trouble.js'
import { numberText } from '../../lib/format.js'
import { go, linkTo } from '../../lib/route.js'
import { usePoll } from '../../lib/use-poll.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { EventDialog } from '../event/event-dialog.js'
import type { ViewProps } from '../view-props.js'
import { EventRows } from './event-rows.js'
import { Filters, isEmpty, readWish, type Wish } from './filters.js'
import { type Live, useLive } from './use-live.js'

/** A stream that is silent may be one without a store. */
const LOOK_MS = 15_000

/** Events as they become visible, newest first. */
export default function LiveView({ signIn, route }: ViewProps) {
  const wish = readWish(route.query)
  const [eventId] = route.rest
  const live = useLive(wish)
  usePoll(lookForTrouble, LOOK_MS)
  const show = (next: Wish) => go(linkTo(['live'], { ...next }), 'replace')
  return (
    <div class="live">
      <header class="live-head">
        <h1>Live</h1>
        <Status live={live} />
        <button type="button" aria-pressed={live.isPaused} onClick={live.isPaused ? live.resume : live.pause}>
          {live.isPaused ? 'Resume' : 'Pause'}
        </button>
      </header>
      <Filters wish={wish} onChange={show} />
      {live.state === 'failed' && live.error && <Failure error={live.error} />}
      {live.waiting > 0 && (
        <button type="button" class="waiting" onClick={live.resume}>
          Show {live.waiting === 1 ? '1 new event' : `${numberText(live.waiting)} new events`}
        </button>
      )}
      <Rows live={live} wish={wish} />
      {eventId !== undefined && (
        <EventDialog
          key={eventId}
          eventId={eventId}
          signIn={signIn}
          onClose={() => go(linkTo(['live'], { ...wish }))}
          onChange={(changed) => live.change(eventId, changed)}
        />
      )}
    </div>
  )
}

function Rows({ live, wish }: { live: Live; wish: Wish }) {
  if (live.events.length > 0) {
    return <EventRows events={live.events} linkOf={(eventId) => linkTo(['live', eventId], { ...wish })} />
  }
  if (live.state === 'failed') return null
  if (!live.isLoaded) return <Loading what="the latest events" />
  if (isEmpty(wish)) return <Empty title="No events yet">They appear here as they arrive.</Empty>
  return <Empty title="No event matches yet">Those that do appear here as they arrive. Or remove a filter.</Empty>
}

const STATUS = { connecting: 'Connecting…', live: 'Live', broken: 'Reconnecting…', failed: 'Stopped' }

function Status({ live: { state, error, isPaused } }: { live: Live }) {
  const kind = isPaused && state === 'live' ? 'paused' : state
  return (
    <p class={`live-status ${kind}`} role="status">
      {kind === 'paused' ? 'Paused' : STATUS[state]}
      {state === 'broken' && error && <small> {error.message}</small>}
    </p>
  )
}
