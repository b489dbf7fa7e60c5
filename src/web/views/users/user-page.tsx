import { useState } from 'preact/hooks'
import type { ErasedUsers } from '../../../contract/schemas.js'
import type { Access } from '../../api/sign-in.js'
import { type FoundUser, readUser } from '../../api/users.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { labelPerson } from '../../lib/display-name.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatTime } from '../../lib/format.js'
import { linkTo } from '../../lib/route.js'
import * as cardStyles from '../../ui/card.module.css'
import * as factsStyles from '../../ui/facts.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { PropertiesView } from '../../ui/properties-view.js'
import * as textStyles from '../../ui/text.module.css'
import { Aliases } from './aliases.js'
import { Erased } from './erased.js'
import { Sessions, useSessions } from './sessions.js'
import { Timeline } from './timeline.js'
import { UserActions } from './user-actions.js'
import * as styles from './user-page.module.css'

/** Events and sessions are read by name, for at most this many names. */
const MAX_NAMES = 20

interface UserPageProps {
  /** any name of the user */
  userId: string
  /** the event to open */
  eventId: string | undefined
  /** the session to expand */
  sessionId: string | null
  access: Access
}

/** The profile, aliases, sessions and events of a user. */
export function UserPage({ userId, eventId, sessionId, access }: UserPageProps) {
  const { value: user, error, reload } = useLoaded(userId, (signal) => readUser(userId, signal))
  const [erased, setErased] = useState<ErasedUsers | null>(null)
  const back = (
    <p class={pageHeaderStyles.back}>
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
      <header class={pageHeaderStyles.header}>
        <div>
          <h1>
            <bdi>{escapeInvisible(user?.distinctId ?? userId)}</bdi>
          </h1>
          {user && <Called user={user} userId={userId} />}
        </div>
        {user && <UserActions distinctId={user.distinctId} access={access} onErased={setErased} />}
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
          access={access}
        />
      )}
    </>
  )
}

function Called({ user: { distinctId, profile }, userId }: { user: FoundUser; userId: string }) {
  const called = labelPerson(profile?.properties ?? {})
  return (
    <>
      {called !== '' && (
        <p>
          <bdi>{called}</bdi>
        </p>
      )}
      {userId !== distinctId && (
        <p class={textStyles.hint}>
          <bdi>{escapeInvisible(userId)}</bdi> is another name of this user.
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
    <div class={styles.user}>
      <div class={styles.side}>
        <Profile user={user} />
        <Aliases
          user={user}
          hint={
            names.length <= aliases.length ? `Only events and sessions of the first ${MAX_NAMES} names are shown.` : ''
          }
          mayRemove={open.access.keyKind === 'secret'}
          onRemoved={onRemoved}
        />
        <Sessions sessions={sessions} openId={open.sessionId} />
      </div>
      <Timeline names={names} {...open} />
    </div>
  )
}

function Profile({ user: { profile } }: { user: FoundUser }) {
  return (
    <section class={cardStyles.card} aria-label="Profile">
      <h2>Profile</h2>
      {profile ? (
        <>
          <dl class={factsStyles.facts}>
            <dt>Created</dt>
            <dd>{formatTime(profile.created_at)}</dd>
            <dt>Updated</dt>
            <dd>{formatTime(profile.updated_at)}</dd>
          </dl>
          <PropertiesView text={profile.text} />
        </>
      ) : (
        <p class={textStyles.hint}>No profile yet: this user was never identified.</p>
      )}
    </section>
  )
}
