import type { ErasedUsers } from '../../../contract/schemas.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatCount, formatTime } from '../../lib/format.js'
import { Empty } from '../../ui/notice.js'

/** The result of an erasure, and whether the data has left the disk. */
export function Erased({ result }: { result: ErasedUsers }) {
  const { erased, gone_at, purge_error, unreadable_dead_letters } = result
  return (
    <div role="status">
      <Empty title="This user has been erased">
        {erased.map(({ distinct_id, profile, events, sessions, dead_letters }) => (
          <p key={distinct_id}>
            <bdi>{escapeInvisible(distinct_id)}</bdi>: {profile ? 'the profile' : 'no profile'},{' '}
            {formatCount(events, 'event')}, {formatCount(sessions, 'session')},{' '}
            {formatCount(dead_letters, 'dead letter')}.
          </p>
        ))}
        <p>
          {gone_at !== null && describePurge(gone_at)}
          {gone_at === null && !purge_error && 'The data is being removed from disk…'}
          {purge_error && `The data is no longer visible anywhere, but it is still on the disk: ${purge_error}`}
        </p>
        {unreadable_dead_letters > 0 && (
          <p>
            {formatCount(unreadable_dead_letters, 'dead letter mentions', 'dead letters mention')} the user but could
            not be read, and so could not be erased.
          </p>
        )}
      </Empty>
    </div>
  )
}

/** ClickHouse keeps the files of rewritten parts for some minutes. */
function describePurge(goneAt: number): string {
  const when = formatTime(goneAt)
  return goneAt > Date.now()
    ? `The data is no longer visible anywhere. It will be gone from the disk by ${when}.`
    : `The data was gone from the disk by ${when}.`
}
