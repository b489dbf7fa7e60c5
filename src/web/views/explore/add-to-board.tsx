import { useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import type { BoardCard } from '../../../contract/saved-schemas.js'
import { addCard, listBoards, saveBoard } from '../../api/boards.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import { useAction } from '../../hooks/use-action.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { proposeName } from '../../lib/answer-labels.js'
import { createId } from '../../lib/new-id.js'
import { type Display, omitProjectDefaults, parseDisplay, parseDraft } from '../../lib/question.js'
import { linkTo } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import { Dialog } from '../../ui/dialog.js'
import * as formStyles from '../../ui/form.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import { Select } from '../../ui/select.js'
import { NameField } from '../../ui/text-field.js'

const NEW = ''

interface AddToBoardProps {
  question: object
  display: Display
  /** the saved question it was opened from, changed or not */
  saved: SavedQuestion | undefined
  onClose: () => void
}

/** Adds the question to an existing or a new board. */
export function AddToBoard({ question, display, saved, onClose }: AddToBoardProps) {
  const boards = useLoaded('boards', listBoards)
  const [added, setAdded] = useState<{ id: string; name: string } | null>(null)
  const options = [...(boards.value ?? []).map(({ id, name }) => [id, name] as const), [NEW, 'A new board'] as const]
  const add = async (title: string, boardId: string, newName: string) => {
    const card = buildCard(title, { question, display, saved })
    const id = boardId === NEW ? createId() : boardId
    if (boardId === NEW)
      await saveBoard(
        id,
        { name: newName, cards: [{ ...card, id: createId() }], display: readRange(question, display) },
        0,
      )
    else await addCard(id, card)
    setAdded({ id, name: options.find(([option]) => option === id)?.[1] ?? newName })
  }
  return (
    <Dialog title="Add to board" onClose={onClose}>
      {boards.error && <Failure error={boards.error} onRetry={boards.reload} />}
      {boards.isLoading && !boards.value && <Loading what="the boards" />}
      {boards.value && !added && <Fields title={saved?.name ?? proposeName(question)} options={options} onAdd={add} />}
      {added && (
        <p role="status">
          The question is on the board <a href={linkTo(['board', added.id])}>{added.name}</a> now.
        </p>
      )}
    </Dialog>
  )
}

interface FieldsProps {
  /** the initial title of the card */
  title: string
  options: (readonly [id: string, name: string])[]
  onAdd: (title: string, boardId: string, newName: string) => Promise<void>
}

function Fields({ title: proposed, options, onAdd }: FieldsProps) {
  const [title, setTitle] = useState(proposed)
  const [boardId, setBoardId] = useState(options[0]?.[0] ?? NEW)
  const [newName, setNewName] = useState('')
  const { error, isBusy, run } = useAction()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    void run(() => onAdd(title.trim(), boardId, newName.trim()))
  }
  const isBlocked = isBusy || !title.trim() || (boardId === NEW && !newName.trim())
  return (
    <form class={formStyles.form} onSubmit={submit}>
      <NameField label="Title of the card" value={title} onChange={setTitle} />
      <Select label="Board" value={boardId} options={options} onChange={setBoardId} />
      {boardId === NEW && <NameField label="Name of the new board" value={newName} onChange={setNewName} />}
      {error && <Failure error={error} />}
      <footer>
        <Button type="submit" look="primary" disabled={isBlocked}>
          Add
        </Button>
      </footer>
    </form>
  )
}

/** The range of a question, which becomes the range of a new board. */
function readRange(question: object, { range }: Display): object | null {
  const draft = parseDraft(question)
  if (!draft) return null
  const { from, to, timezone, week_start } = draft
  const dates = from !== undefined && to !== undefined ? { from, to } : range && { range }
  return { ...omitProjectDefaults({ timezone, week_start }), ...dates }
}

/** Builds the card. If the saved question is unchanged, the card refers to it and follows its changes. */
function buildCard(
  name: string,
  { question, display, saved }: Omit<AddToBoardProps, 'onClose'>,
): Omit<BoardCard, 'id'> {
  const isSaved =
    saved !== undefined &&
    formatExactJson([question, parseDisplay(display)]) ===
      formatExactJson([saved.question, parseDisplay(saved.display)])
  const isWide = 'kind' in question && (question.kind === 'retention' || question.kind === 'paths')
  return {
    name,
    question: isSaved ? { saved: saved.id } : (question as BoardCard['question']),
    display: isSaved ? null : { ...display },
    width: isWide ? 4 : 2,
    height: null,
  }
}
