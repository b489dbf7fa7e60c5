import { useState } from 'preact/hooks'
import type { ErasedUsers } from '../../../contract/responses.js'
import type { SignIn } from '../../api/sign-in.js'
import { type FoundUser, readUser } from '../../api/users.js'
import { timeText } from '../../lib/format.js'
import { emailOf, nameOf } from '../../lib/person.js'
import { linkTo } from '../../lib/route.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { visible } from '../../lib/visible.js'
import { ExactTexts } from '../../ui/exact-texts.js'
import { Failure, Loading } from '../../ui/notice.js'
import { Aliases } from './aliases.js'
import { Erased } from './erased.js'
import { Sessions, useSessions } from './sessions.js'
import { Timeline } from './timeline.js'
import { UserActions } from './user-actions.js'

/** Events and sessions are read by name; of users with more names, these many are looked at. */
const MAX_NAMES = 20

interface UserPageProps {
  /** one of the names of the user */
  userId: string
  /** the event that is open */
  eventId: string | undefined
  /** the session that is open */
  sessionId: string | null
  signIn: SignIn
}

/** Everything that is known of one user. */
export function UserPage({ userId, eventId, sessionId, signIn }: UserPageProps) {
  const { value: user, error, reload } = useLoaded(userId, (signal) => readUser(userId, signal))
  const [erased, setErased] = useState<ErasedUsers | null>(null)
  const back = (
    <p class="back">
      <a href={linkTo(['users'])}>← All users</a>
    </p>
  )
  if (erased) {
    return (
      <>
        {back}
        <Erased result={erased} />
      </>
    )
  }
  return (
    <>
      {back}
      <header class="user-head">
        <div>
          <h1>
            <bdi>{visible(user?.distinctId ?? userId)}</bdi>
          </h1>
          {user && <Called user={user} userId={userId} />}
        </div>
        {user && <UserActions distinctId={user.distinctId} signIn={signIn} onErased={setErased} />}
      </header>
      {error && <Failure error={error} onRetry={reload} />}
      {!user && !error && <Loading what="the user" />}
      {user && (
        <Parts
          key={user.aliases.length}
          user={user}
          onRemoved={reload}
          eventId={eventId}
          sessionId={sessionId}
          signIn={signIn}
        />
      )}
    </>
  )
}

function Called({ user: { distinctId, profile }, userId }: { user: FoundUser; userId: string }) {
  const called = profile ? [nameOf(profile.properties), emailOf(profile.properties)].filter((text) => text !== '') : []
  return (
    <>
      {called.length > 0 && (
        <p>
          <bdi>{called.map(visible).join(' · ')}</bdi>
        </p>
      )}
      {userId !== distinctId && (
        <p class="hint">
          <bdi>{visible(userId)}</bdi> is another name of this user.
        </p>
      )}
    </>
  )
}

type PartsProps = { user: FoundUser; onRemoved: () => void } & Omit<UserPageProps, 'userId'>

function Parts({ user, onRemoved, ...open }: PartsProps) {
  const names = [user.distinctId, ...user.aliases].slice(0, MAX_NAMES)
  const sessions = useSessions(names)
  const { aliases } = user
  return (
    <div class="user">
      <div class="user-side">
        <Profile user={user} />
        <Aliases
          user={user}
          hint={names.length <= aliases.length ? `Events and sessions are shown of the first ${MAX_NAMES} names.` : ''}
          mayRemove={open.signIn.kind === 'secret'}
          onRemoved={onRemoved}
        />
        <Sessions sessions={sessions} openId={open.sessionId} />
      </div>
      <Timeline names={names} sessions={sessions.list} {...open} />
    </div>
  )
}

function Profile({ user: { profile } }: { user: FoundUser }) {
  return (
    <section class="card" aria-label="Profile">
      <h2>Profile</h2>
      {profile ? (
        <>
          <dl class="facts">
            <dt>Created</dt>
            <dd>{timeText(profile.created_at)}</dd>
            <dt>Updated</dt>
            <dd>{timeText(profile.updated_at)}</dd>
          </dl>
          <ExactTexts text={profile.text} />
        </>
      ) : (
        <p class="hint">There is none: nobody identified this user.</p>
      )}
    </section>
  )
}
