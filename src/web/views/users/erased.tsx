import type { ErasedUsers } from '../../../contract/responses.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatNumber, formatTime } from '../../lib/format.js'
import { Empty } from '../../ui/notice.js'

/** The result of an erasure, and whether the data has left the disk. */
export function Erased({ result }: { result: ErasedUsers }) {
  const { erased, gone_at, purge_error, unreadable_dead_letters } = result
  return (
    <div role="status">
      <Empty title="The user is erased">
        {erased.map(({ distinct_id, profile, events, sessions, dead_letters }) => (
          <p key={distinct_id}>
            <bdi>{escapeInvisible(distinct_id)}</bdi>: {profile ? 'the profile' : 'no profile'}, {formatNumber(events)}{' '}
            events, {formatNumber(sessions)} sessions, {formatNumber(dead_letters)} dead letters.
          </p>
        ))}
        <p>
          {gone_at !== null && describePurge(gone_at)}
          {gone_at === null && !purge_error && 'Erased. Removing the data from disk…'}
          {purge_error && `No call shows the data any more, but it is still on the disk: ${purge_error}`}
        </p>
        {unreadable_dead_letters > 0 && (
          <p>{formatNumber(unreadable_dead_letters)} dead letters name the user but cannot be read, and were left.</p>
        )}
      </Empty>
    </div>
  )
}

/** ClickHouse keeps the files of rewritten parts for some minutes. */
function describePurge(goneAt: number): string {
  const when = formatTime(goneAt)
  return goneAt > Date.now()
    ? `No call shows the data any more. It leaves the disk by ${when}.`
    : `The data left the disk by ${when}.`
}
