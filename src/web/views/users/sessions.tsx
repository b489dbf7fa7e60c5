import { useState } from 'preact/hooks'
import type { Session } from '../../../contract/responses.js'
import { listSessions } from '../../api/users.js'
import { type Loaded, useLoaded } from '../../hooks/use-loaded.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatDuration, formatTime } from '../../lib/format.js'
import type { Exact } from '../../lib/json-text.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Json } from '../../ui/code.js'
import { Failure } from '../../ui/notice.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './sessions.module.css'

/** Sessions per page. */
const STEP = 10
/** Reading more takes too long. */
const MAX = 1_000

export interface SessionsLoaded extends Omit<Loaded<unknown>, 'value'> {
  /** the latest start first */
  list: Exact<Session>[]
  hasMore: boolean
  showMore: () => void
}

/** The latest sessions of a user. @param names of the user */
export function useSessions(names: string[]): SessionsLoaded {
  const [limit, setLimit] = useState(STEP)
  const { value, ...state } = useLoaded(JSON.stringify([names, limit]), async (signal) => {
    const read = await Promise.all(names.map((distinctId) => listSessions({ distinctId, limit }, signal)))
    const all = read.flatMap(({ sessions }) => sessions).sort((a, b) => b.started_at - a.started_at)
    return { list: all.slice(0, limit), hasMore: all.length > limit || read.some(({ hasMore }) => hasMore) }
  })
  const showMore = () => setLimit((before) => Math.min(MAX, before < 5 * STEP ? before + STEP : 2 * before))
  const hasMore = (value?.hasMore ?? false) && limit < MAX
  return { ...state, list: value?.list ?? [], hasMore, showMore }
}

/**
 * The sessions of a user that started since then; none until they are loaded.
 * @param since epoch ms; null: none
 */
export function useSessionsSince(names: string[], since: number | null): Session[] {
  const { value } = useLoaded(since === null ? null : JSON.stringify([names, since]), async (signal) => {
    const from = Math.max(0, since ?? 0)
    const read = await Promise.all(names.map((distinctId) => listSessions({ distinctId, limit: MAX, from }, signal)))
    return read.flatMap(({ sessions }) => sessions)
  })
  return value ?? []
}

/**
 * The sessions of the session calls, with their properties; nothing if there are none, because the timeline shows the
 * sessions of events.
 * @param openId the session to expand
 */
export function Sessions({ sessions, openId }: { sessions: SessionsLoaded; openId: string | null }) {
  const { list, hasMore, isLoading, error, reload, showMore } = sessions
  if (list.length === 0 && !error) return null
  return (
    <section class={cardStyles.card} aria-label="Sessions" aria-busy={isLoading}>
      <h2>Sessions</h2>
      {error && <Failure error={error} onRetry={reload} />}
      <p class={textStyles.hint}>Only sessions reported through the sessions API.</p>
      {list.map((session) => (
        <details key={session.session_id} class={styles.session} open={session.session_id === openId}>
          <summary>
            <span>{formatTime(session.started_at)}</span>
            <small>{session.state === 'active' ? 'active' : formatSessionDuration(session)}</small>
          </summary>
          <p class={textStyles.hint}>
            <bdi>{escapeInvisible(session.session_id)}</bdi>, {session.state}, last seen{' '}
            {formatTime(session.updated_at)}
          </p>
          <Json text={session.text} label={`Properties of session ${escapeInvisible(session.session_id)}`} />
        </details>
      ))}
      {hasMore && (
        <Button look="link" disabled={isLoading} onClick={showMore}>
          Show more sessions
        </Button>
      )}
    </section>
  )
}

/** Based on timestamps, because clients may send the duration in any unit. */
function formatSessionDuration({ started_at, updated_at, ended_at }: Session): string {
  return formatDuration((ended_at ?? updated_at) - started_at)
}
