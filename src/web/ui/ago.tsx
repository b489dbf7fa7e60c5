import { formatAgo, formatTime } from '../lib/format.js'

/** How long ago something was, with the time as a tooltip. @param instant epoch ms */
export function Ago({ instant }: { instant: number }) {
  return (
    <time dateTime={new Date(instant).toISOString()} title={formatTime(instant)}>
      {formatAgo(instant)}
    </time>
  )
}
