import type { ViewProps } from '../../app.js'

export default function Data({ session }: ViewProps) {
  return <h1>Data of {session.project}</h1>
}
