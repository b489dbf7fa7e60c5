import type { Access } from '../api/sign-in.js'
import type { Route } from '../lib/navigation.js'

/** What every view is given. */
export interface ViewProps {
  session: Access
  route: Route
}
