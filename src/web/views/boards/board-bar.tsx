import { useMemo } from 'preact/hooks'
import { labelFilter } from '../../../contract/labels.js'
import type { BoardControls } from '../../lib/board-controls.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { dropIncomplete } from '../../lib/filters.js'
import { Popover } from '../../ui/popover.js'
import * as textStyles from '../../ui/text.module.css'
import { FilterEditor } from '../explore/filter-editor.js'
import { RangeFields, useMoment } from '../range-fields.js'
import * as rangeStyles from '../range-fields.module.css'
import { Suggestions, SuggestionsContext } from '../suggestions.js'

interface BoardBarProps {
  controls: BoardControls
  onChange: (controls: BoardControls) => void
}

/** The range, time zone and filter of all cards. */
export function BoardBar({ controls, onChange }: BoardBarProps) {
  const suggestions = useMemo(() => new Suggestions(), [])
  const moment = useMoment(controls)
  const { where } = controls
  const complete = dropIncomplete(where)
  return (
    <section class={rangeStyles.range} aria-label="All cards">
      <RangeFields choice={controls} moment={moment} onChange={(choice) => onChange({ ...choice, where })} />
      <Popover
        summary={
          <>
            {complete ? `Only ${escapeInvisible(labelFilter(complete))}` : 'Filter'}
            <span class={textStyles.hidden}>, for all cards</span>
          </>
        }
      >
        <SuggestionsContext.Provider value={suggestions}>
          <FilterEditor
            label="Filter for all cards"
            value={where}
            events={[]}
            path="/where"
            onChange={(next) => onChange({ ...controls, where: next })}
          />
        </SuggestionsContext.Provider>
      </Popover>
    </section>
  )
}
