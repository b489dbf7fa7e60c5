import { useEffect, useMemo, useState } from 'preact/hooks'
import { listEventNames } from '../../api/schema.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { NameDialog } from '../../ui/name-dialog.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as boardHeaderStyles from './board-header.module.css'
import { createBoard, WHY_SECRET } from './board-links.js'
import { CardGrid } from './card-grid.js'
import { suggestCards, suggestUsualCards } from './default-cards.js'

/** Names that take longer are not waited for. */
const LATE_MS = 100
const timezone = () => Intl.DateTimeFormat().resolvedOptions().timeZone

/** The board that a project has by itself, filled by its own data. */
export function Overview({ canEdit, onSaved }: { canEdit: boolean; onSaved: () => void }) {
  const { cards, error, isLoading, reload } = useSuggestedCards()
  const [isNaming, setNaming] = useState(false)
  const isLate = useLate()
  const isGuessed = isLate && isLoading && cards.length === 0
  return (
    <>
      <header class={boardHeaderStyles.boardHeader}>
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
      {isLoading && cards.length === 0 && !isGuessed && <Loading what="the names of events" />}
      {!isLoading && !error && cards.length === 0 && (
        <Empty title="There are no events yet">
          <p>Once some have arrived, this board shows them.</p>
          <button type="button" onClick={reload}>
            Look again
          </button>
        </Empty>
      )}
      <CardGrid cards={isGuessed ? suggestUsualCards(timezone()) : cards} saved={null} />
      {isNaming && (
        <NameDialog
          title="Save as board"
          name="Overview"
          action={{
            text: 'Save board',
            act: async (name) => {
              await createBoard({ name, cards })
              onSaved()
            },
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  )
}

/** Cards about the data that the project has. */
export function useSuggestedCards() {
  const { value, error, isLoading, reload } = useLoaded('events', listEventNames)
  const cards = useMemo(() => {
    return suggestCards(value?.events ?? [], timezone(), Date.now())
  }, [value])
  return { cards, error, isLoading, reload }
}

/** Whether the component has been there for some time. */
function useLate(): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS)
    return () => clearTimeout(timer)
  }, [])
  return isLate
}
