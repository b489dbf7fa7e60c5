import type { ViewProps } from '../view-props.js'
import { UserList } from './user-list.js'
import { UserPage } from './user-page.js'

/** Everybody, or one user. */
export default function Users({ signIn, route }: ViewProps) {
  const [userId, eventId] = route.rest
  if (userId === undefined || userId === '') return <UserList query={route.query} />
  const sessionId = route.query.get('session')
  return <UserPage key={userId} userId={userId} eventId={eventId} sessionId={sessionId} signIn={signIn} />
}
