import { readBoard } from '../../api/boards.js'
import { listSavedQuestions } from '../../api/saved-questions.js'
import { navigate } from '../../lib/navigation.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { BoardEditor } from './board-editor.js'
import * as boardHeaderStyles from './board-header.module.css'
import { linkToBoard, WHY_SECRET } from './board-links.js'
import { CardGrid } from './card-grid.js'

interface BoardPageProps {
  id: string
  canEdit: boolean
  isEditing: boolean
  /** called after saving */
  onChanged: () => void
  onDeleted: () => void
}

/** A saved board. */
export function BoardPage({ id, canEdit, isEditing, onChanged, onDeleted }: BoardPageProps) {
  const { value: board, error, reload } = useLoaded('board', (signal) => readBoard(id, signal))
  const saved = useLoaded('saved', listSavedQuestions)
  if (error) return <Failure error={error} onRetry={reload} />
  if (!board) return <Loading what="the board" />
  const edit = (isEditing: boolean) => navigate(linkToBoard(id, isEditing), 'replace')
  if (isEditing) {
    return (
      <BoardEditor
        key={board.revision}
        board={board}
        saved={saved}
        onReload={reload}
        onDeleted={onDeleted}
        onDone={(isChanged) => {
          if (isChanged) {
            reload()
            onChanged()
          }
          edit(false)
        }}
      />
    )
  }
  return (
    <>
      <header class={boardHeaderStyles.header}>
        <h1>{board.name}</h1>
        <button type="button" disabled={!canEdit} title={canEdit ? undefined : WHY_SECRET} onClick={() => edit(true)}>
          Edit board
        </button>
      </header>
      {board.cards.length === 0 && (
        <Empty title="This board is empty">
          <p>Edit it to add cards: questions that were saved in Explore, or some about your data.</p>
        </Empty>
      )}
      <CardGrid cards={board.cards} saved={saved} />
    </>
  )
}
