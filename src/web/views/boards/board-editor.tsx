import { useState } from 'preact/hooks'
import { isSameJson } from '../../../contract/same-json.js'
import type { Board, BoardCard } from '../../../contract/saved-schemas.js'
import { deleteBoard, readBoard, saveBoard } from '../../api/boards.js'
import { type Conflict, findConflict } from '../../api/call.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import { useAction } from '../../hooks/use-action.js'
import type { Loaded } from '../../hooks/use-loaded.js'
import type { BoardControls } from '../../lib/board-controls.js'
import { guardRoute } from '../../lib/navigation.js'
import { createId } from '../../lib/new-id.js'
import { omitProjectDefaults } from '../../lib/question.js'
import { Button } from '../../ui/button.js'
import { ConflictDialog } from '../../ui/conflict.js'
import { ActionDialog } from '../../ui/dialog.js'
import { Failure } from '../../ui/notice.js'
import * as textStyles from '../../ui/text.module.css'
import { TextField } from '../../ui/text-field.js'
import { UnsavedChangesGuard } from '../../ui/unsaved-changes.js'
import { AddCard } from './add-card.js'
import { BoardBar } from './board-bar.js'
import * as styles from './board-editor.module.css'
import { CardGrid } from './card-grid.js'
import { changeCard, moveCard } from './edit-cards.js'

interface BoardEditorProps {
  board: Omit<Board, 'display'> & { display: BoardControls }
  /** the current controls, which may differ from those saved with the board */
  controls: BoardControls
  saved: Loaded<SavedQuestion[]>
  /** reloads the board after someone else saved it */
  onReload: () => void
  onDeleted: () => void
  /** @param id of the board, which may be new */
  onSaved: (id: string) => void
  onCancel: () => void
}

/** Edits a board; all changes are saved together. */
export function BoardEditor({ board, controls, saved, onReload, onDeleted, onSaved, onCancel }: BoardEditorProps) {
  const [initial] = useState({ name: board.name, cards: board.cards, display: board.display })
  const [draft, setDraft] = useState({ ...initial, display: controls })
  const [open, setOpen] = useState<'add' | 'delete' | Conflict | null>(null)
  const { error, isBusy, run } = useAction()
  const isChanged = !isSameJson(draft, initial)
  const close = () => setOpen(null)
  const edit = (part: Partial<typeof draft>) => setDraft((before) => ({ ...before, ...part }))
  const change = (cards: BoardCard[]) => edit({ cards })

  const put = async (id: string, revision: number | null) => {
    const display = omitProjectDefaults(draft.display)
    await saveBoard(id, { ...draft, name: draft.name.trim(), display }, revision)
    guardRoute(null)
    onSaved(id)
  }
  const save = () =>
    run(async () => {
      try {
        await put(board.id, board.revision)
      } catch (failure) {
        const conflict = await findConflict(failure, () => readBoard(board.id))
        if (conflict === null) throw failure
        setOpen(conflict)
      }
    })
  return (
    <>
      <h1 class={textStyles.hidden}>Edit board</h1>
      {isChanged && <UnsavedChangesGuard what="board" />}
      {/* What was changed while the board is being saved would be lost. */}
      <div inert={isBusy}>
        <Toolbar
          name={draft.name}
          isBusy={isBusy}
          onName={(name) => edit({ name })}
          onAdd={() => setOpen('add')}
          onDelete={() => setOpen('delete')}
          onSave={save}
          onCancel={onCancel}
        />
        {error && <Failure error={error} />}
        <BoardBar controls={draft.display} onChange={(display) => edit({ display })} />
        {draft.cards.length === 0 && <p class={textStyles.hint}>There are no cards yet. Add the first one.</p>}
        <CardGrid
          cards={draft.cards}
          saved={saved}
          controls={draft.display}
          edit={{
            move: (id, place) => change(moveCard(draft.cards, id, place)),
            change: (id, what) => change(changeCard(draft.cards, id, what)),
            remove: (id) => change(draft.cards.filter((card) => card.id !== id)),
          }}
        />
      </div>
      {open === 'add' && (
        <AddCard
          saved={saved}
          onAdd={(card) => change([...draft.cards, { ...card, id: createId() }])}
          count={draft.cards.length}
          onClose={close}
        />
      )}
      {open === 'delete' && (
        <ActionDialog
          title="Delete board"
          action="Delete board"
          onClose={close}
          onConfirm={async () => {
            await deleteBoard(board.id)
            guardRoute(null)
            onDeleted()
          }}
        >
          <p>This deletes “{board.name}” for everyone. Saved questions stay.</p>
        </ActionDialog>
      )}
      {(open === 'changed' || open === 'deleted') && (
        <ConflictDialog
          what="board"
          conflict={open}
          onLoad={onReload}
          onOverwrite={() => put(board.id, null)}
          onSaveNew={() => put(createId(), 0)}
          onClose={close}
        />
      )}
    </>
  )
}

interface ToolbarProps {
  name: string
  isBusy: boolean
  onName: (name: string) => void
  onAdd: () => void
  onDelete: () => void
  onSave: () => void
  onCancel: () => void
}

function Toolbar({ name, isBusy, onName, onAdd, onDelete, onSave, onCancel }: ToolbarProps) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    onSave()
  }
  return (
    <form class={styles.editing} onSubmit={submit}>
      <div class={styles.name}>
        <TextField label="Name of the board" value={name} maxLength={255} required onChange={onName} />
      </div>
      <Button onClick={onAdd}>Add card</Button>
      <Button look="danger" onClick={onDelete}>
        Delete board
      </Button>
      <span class={styles.space} />
      <Button onClick={onCancel}>Cancel</Button>
      <Button type="submit" look="primary" disabled={isBusy || !name.trim()}>
        Save board
      </Button>
    </form>
  )
}
