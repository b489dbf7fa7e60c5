import type { ViewProps } from '../../app.js'

export default function Boards({ session }: ViewProps) {
  return <h1>Boards of {session.project}</h1>
}
