import { useMemo, useState } from 'preact/hooks'
import { eventNames } from '../../api/names.js'
import { defaultCards } from '../../lib/default-board.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { CardGrid } from './card-grid.js'
import { createBoard, WHY_SECRET } from './links.js'
import { NameDialog } from './name-dialog.js'

/** The board that a project has by itself, filled by its own data. */
export function Overview({ canEdit, onSaved }: { canEdit: boolean; onSaved: () => void }) {
  const { cards, error, isLoading, reload } = useSuggestedCards()
  const [isNaming, setNaming] = useState(false)
  return (
    <>
      <header class="board-header">
        <h1>Overview</h1>
        <button
          type="button"
          disabled={!canEdit || cards.length === 0}
          title={canEdit ? undefined : WHY_SECRET}
          onClick={() => setNaming(true)}
        >
          Save as board
        </button>
      </header>
      {error && <Failure error={error} onRetry={reload} />}
      {isLoading && cards.length === 0 && <Loading what="the names of events" />}
      {!isLoading && !error && cards.length === 0 && (
        <Empty title="There are no events yet">
          <p>Once some have arrived, this board shows them.</p>
          <button type="button" onClick={reload}>
            Look again
          </button>
        </Empty>
      )}
      <CardGrid cards={cards} saved={null} />
      {isNaming && (
        <NameDialog
          title="Save as board"
          action="Save board"
          name="Overview"
          onName={async (name) => {
            await createBoard({ name, cards })
            onSaved()
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  )
}

/** Cards about the data that the project has. */
export function useSuggestedCards() {
  const { value, error, isLoading, reload } = useLoaded('events', eventNames)
  const cards = useMemo(() => {
    return defaultCards(value ?? [], Intl.DateTimeFormat().resolvedOptions().timeZone, Date.now())
  }, [value])
  return { cards, error, isLoading, reload }
}
