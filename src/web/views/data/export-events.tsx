import { useState } from 'preact/hooks'
import type { RowFormat } from '../../../contract/formats.js'
import { toExportUrl } from '../../api/events.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { getProjectSettings } from '../../lib/project-settings.js'
import { findInstant, type RangeChoice, resolveRange } from '../../lib/range.js'
import * as buttonStyles from '../../ui/button.module.css'
import { Dialog } from '../../ui/dialog.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { RangeFields, useMoment } from '../range-fields.js'
import * as rangeStyles from '../range-fields.module.css'

const FORMATS: readonly (readonly [RowFormat, string])[] = [
  ['csv', 'CSV'],
  ['ndjson', 'JSON lines'],
  ['parquet', 'Parquet'],
]

interface ExportEventsProps {
  event: string
  onClose: () => void
}

/** Downloads the events of a name, one row each, with all their properties. */
export function ExportEvents({ event, onClose }: ExportEventsProps) {
  const [format, setFormat] = useState<RowFormat>('csv')
  const { timezone, week_start } = getProjectSettings()
  const [choice, setChoice] = useState<RangeChoice>({ range: '30d', timezone, week_start })
  const moment = useMoment(choice)
  const { from, to } = resolveRange(choice, moment)
  // All time needs no bounds, whether or not the first event is known yet.
  const isAll = choice.range === 'all' && choice.from === undefined
  const url = toExportUrl({
    event,
    format,
    from: isAll ? null : findInstant(from, choice.timezone),
    to: isAll ? null : findInstant(to, choice.timezone),
  })
  return (
    <Dialog title={`Export “${escapeInvisible(event)}”`} onClose={onClose}>
      <p class={textStyles.hint}>One row per event, with its user, time and properties.</p>
      <div class={rangeStyles.range}>
        <RangeFields choice={choice} moment={moment} onChange={setChoice} />
        <Select label="Format" value={format} options={FORMATS} onChange={setFormat} />
      </div>
      <footer>
        <a class={buttonStyles.button} href={url} download>
          Download
        </a>
      </footer>
    </Dialog>
  )
}
