import type { SignIn } from '../api/sign-in.js'
import type { Route } from '../lib/route.js'

/** What every view is given. */
export interface ViewProps {
  signIn: SignIn
  route: Route
}
