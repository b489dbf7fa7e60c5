import type { ViewProps } from '../../app.js'

export default function Explore({ session }: ViewProps) {
  return <h1>Explore of {session.project}</h1>
}
