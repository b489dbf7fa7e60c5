import type { ViewProps } from '../../app.js'

export default function Users({ session }: ViewProps) {
  return <h1>Users of {session.project}</h1>
}
