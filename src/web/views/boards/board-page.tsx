import { readBoard } from '../../api/boards.js'
import { listSavedQuestions } from '../../api/saved-questions.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { formatControls, parseControls, readControls } from '../../lib/board-controls.js'
import { navigate } from '../../lib/navigation.js'
import { Button } from '../../ui/button.js'
import { CopyButton } from '../../ui/copy-button.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { BoardBar } from './board-bar.js'
import { BoardEditor } from './board-editor.js'
import { linkToBoard, WHY_SECRET } from './board-links.js'
import { CardGrid } from './card-grid.js'
import { dropDeleted } from './edit-cards.js'

interface BoardPageProps {
  id: string
  canEdit: boolean
  /** of the URL: the controls, and whether the board is edited */
  query: URLSearchParams
  /** called after saving */
  onChanged: () => void
  onDeleted: () => void
}

/** A saved board. */
export function BoardPage({ id, canEdit, query, onChanged, onDeleted }: BoardPageProps) {
  const { value: board, error, reload } = useLoaded('board', (signal) => readBoard(id, signal))
  const saved = useLoaded('saved', listSavedQuestions)
  if (error) return <Failure error={error} onRetry={reload} />
  if (!board) return <Loading what="the board" />
  const own = parseControls(board.display)
  const controls = readControls(query, own)
  const show = (next: typeof controls, isEditing = false) => {
    navigate(linkToBoard(id, formatControls(next, own), isEditing), 'replace')
  }
  // While the list is reloading, a question may be missing only because it is newer than the list.
  const cards = dropDeleted(board.cards, saved.isLoading ? null : saved.value)
  if (canEdit && query.get('edit') === '1') {
    return (
      <BoardEditor
        key={board.revision}
        board={{ ...board, cards, display: own }}
        controls={controls}
        saved={saved}
        onReload={() => {
          saved.reload()
          reload()
        }}
        onDeleted={onDeleted}
        onSaved={(savedId) => {
          if (savedId === id) reload()
          onChanged()
          navigate(linkToBoard(savedId), 'replace')
        }}
        onCancel={() => show(controls)}
      />
    )
  }
  return (
    <>
      <header class={pageHeaderStyles.header}>
        <h1>{board.name}</h1>
        <div class={pageHeaderStyles.actions}>
          <CopyButton label="Copy link" text={location.href} />
          <Button disabled={!canEdit} title={canEdit ? undefined : WHY_SECRET} onClick={() => show(controls, true)}>
            Edit board
          </Button>
        </div>
      </header>
      <BoardBar controls={controls} onChange={show} />
      {cards.length === 0 && (
        <Empty title="This board is empty">
          <p>Edit it to add cards: questions that were saved in Explore, or some about your data.</p>
        </Empty>
      )}
      <CardGrid cards={cards} saved={saved} controls={controls} />
    </>
  )
}
