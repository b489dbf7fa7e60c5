import { useEffect, useMemo, useState } from 'preact/hooks'
import { listEventNames } from '../../api/schema.js'
import { getBrowserTimeZone } from '../../lib/intl.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { NameDialog } from '../../ui/name-dialog.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as boardHeaderStyles from './board-header.module.css'
import { createBoard, WHY_SECRET } from './board-links.js'
import { CardGrid } from './card-grid.js'
import { suggestCards, suggestUsualCards } from './default-cards.js'

/** How long to wait for the event names before showing placeholder cards. */
const LATE_MS = 100

/** The default board of a project, based on its data. */
export function Overview({ canEdit, onSaved }: { canEdit: boolean; onSaved: () => void }) {
  const { cards, error, isLoading, reload } = useSuggestedCards()
  const [isNaming, setNaming] = useState(false)
  const isLate = useLate()
  const isGuessed = isLate && isLoading && cards.length === 0
  return (
    <>
      <header class={boardHeaderStyles.header}>
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
      <CardGrid cards={isGuessed ? suggestUsualCards(getBrowserTimeZone()) : cards} saved={null} />
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

/** Suggested cards, based on the data of the project. */
export function useSuggestedCards() {
  const { value, error, isLoading, reload } = useLoaded('events', listEventNames)
  const cards = useMemo(() => {
    return suggestCards(value?.events ?? [], getBrowserTimeZone(), Date.now())
  }, [value])
  return { cards, error, isLoading, reload }
}

/** Whether the component was mounted longer than `LATE_MS` ago. */
function useLate(): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS)
    return () => clearTimeout(timer)
  }, [])
  return isLate
}
