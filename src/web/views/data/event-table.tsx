import type { EventName } from '../../../contract/responses.js'
import { listEventNames } from '../../api/schema.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import type { CsvRow } from '../../lib/csv.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatCount, formatNumber } from '../../lib/format.js'
import { navigate } from '../../lib/navigation.js'
import { linkToEvent } from '../../lib/question.js'
import { linkTo } from '../../lib/route.js'
import { Ago } from '../../ui/ago.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { Scrollable } from '../../ui/scrollable.js'
import { SearchField } from '../../ui/search-field.js'
import * as tableStyles from '../../ui/table.module.css'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './event-table.module.css'

/** Further rows can be found by searching. */
const MAX_ROWS = 500

/** The event names with their counts. @param query of the route */
export function EventTable({ query }: { query: URLSearchParams }) {
  const search = query.get('search') ?? ''
  const { value, error, isLoading, reload } = useLoaded('names', listEventNames)
  const matches = value?.events.filter(({ event }) => event.toLowerCase().includes(search.toLowerCase())) ?? []
  return (
    <>
      <div class={tableStyles.tableBar}>
        <SearchField
          label="Search events"
          value={search}
          onChange={(text) => navigate(linkTo(['data'], { search: text }), 'replace')}
        />
        {matches.length > 0 && <CsvButton name="events" rows={() => buildCsv(matches)} />}
      </div>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="events" />}
      {value && value.pending > 0 && (
        <p class={textStyles.hint}>
          {formatCount(value.pending, 'accepted event is', 'accepted events are')} not counted yet.
        </p>
      )}
      {matches.length > 0 && <Table names={matches.slice(0, MAX_ROWS)} />}
      {matches.length > MAX_ROWS && (
        <p class={textStyles.hint}>Only the first {formatNumber(MAX_ROWS)} are shown. Search to find others.</p>
      )}
      {value && matches.length === 0 && (
        <Empty title={search ? 'No events match' : 'No events yet'}>
          {search ? 'Try part of the name.' : 'Events are listed here once the first one arrives.'}
        </Empty>
      )}
    </>
  )
}

function buildCsv(names: EventName[]): CsvRow[] {
  const rows = names.map(({ event, count, first_seen, last_seen }): CsvRow => {
    return [event, count, new Date(first_seen).toISOString(), new Date(last_seen).toISOString()]
  })
  return [['Event', 'Count', 'First seen', 'Last seen'], ...rows]
}

function Table({ names }: { names: EventName[] }) {
  return (
    <Scrollable label="List of events" class={`${cardStyles.card} ${tableStyles.scroll}`}>
      <table class={tableStyles.list}>
        <caption class={textStyles.hidden}>Events</caption>
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col" class={tableStyles.number}>
              Count
            </th>
            <th scope="col" class={styles.spare}>
              First seen
            </th>
            <th scope="col" class={styles.spare}>
              Last seen
            </th>
            <th scope="col">
              <span class={textStyles.hidden}>Explore</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <Row key={name.event} name={name} />
          ))}
        </tbody>
      </table>
    </Scrollable>
  )
}

function Row({ name: { event, count, first_seen, last_seen } }: { name: EventName }) {
  return (
    <tr>
      <td>
        <a href={linkTo(['data', 'events', event])}>
          <bdi>{escapeInvisible(event)}</bdi>
        </a>
      </td>
      <td class={tableStyles.number}>{formatNumber(count)}</td>
      {[first_seen, last_seen].map((instant, i) => (
        <td key={i === 0 ? 'first' : 'last'} class={styles.spare}>
          <Ago instant={instant} />
        </td>
      ))}
      <td>
        <a href={linkToEvent(event)} aria-label={`Explore ${escapeInvisible(event)}`}>
          Explore
        </a>
      </td>
    </tr>
  )
}
