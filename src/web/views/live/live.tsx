import type { ViewProps } from '../../app.js'

export default function Live({ session }: ViewProps) {
  return <h1>Live of {session.project}</h1>
}
