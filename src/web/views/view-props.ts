import type { Access } from '../api/sign-in.js'
import type { Route } from '../lib/route.js'

/** The props of every view. */
export interface ViewProps {
  access: Access
  route: Route
}
