import type { ViewProps } from '../../app.js'

export default function Health({ session }: ViewProps) {
  return <h1>Health of {session.project}</h1>
}
