import { useState } from 'preact/hooks'
import { type Conflict, findConflict } from '../../api/call.js'
import {
  deleteQuestion,
  listSavedQuestions,
  readSavedQuestion,
  type SavedQuestion,
  saveQuestion,
} from '../../api/saved-questions.js'
import { type Loaded, useLoaded } from '../../hooks/use-loaded.js'
import { proposeName } from '../../lib/answer-labels.js'
import { navigate } from '../../lib/navigation.js'
import { createId } from '../../lib/new-id.js'
import { type Display, linkToExplore, parseDisplay } from '../../lib/question.js'
import { Button } from '../../ui/button.js'
import { ConflictDialog } from '../../ui/conflict.js'
import { ActionDialog, Dialog } from '../../ui/dialog.js'
import * as listStyles from '../../ui/list.module.css'
import { NameDialog } from '../../ui/name-dialog.js'
import { Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { RemoveButton } from '../../ui/remove-button.js'
import * as textStyles from '../../ui/text.module.css'
import { AddToBoard } from './add-to-board.js'

const WHY_SECRET = 'Saving needs a secret key: sign in with one.'

interface SavedBarProps {
  question: unknown
  display: Display
  /** id of the saved question it was opened from, changed or not */
  saved: string
  canSave: boolean
}

/** Opens and saves questions. */
export function SavedBar({ question, display, saved, canSave }: SavedBarProps) {
  const [open, setOpen] = useState<'list' | 'save' | 'board' | null>(null)
  const list = useLoaded(open === null && saved === '' ? null : 'saved', listSavedQuestions)
  const current = list.value?.find(({ id }) => id === saved)
  return (
    <div class={pageHeaderStyles.actions}>
      {current && <span class={textStyles.hint}>{current.name}</span>}
      <Button onClick={() => setOpen('list')}>Saved questions</Button>
      <Button
        look="primary"
        disabled={!canSave || question === undefined}
        title={canSave ? undefined : WHY_SECRET}
        onClick={() => setOpen('save')}
      >
        Save
      </Button>
      <Button
        disabled={!canSave || question === undefined}
        title={canSave ? undefined : WHY_SECRET}
        onClick={() => setOpen('board')}
      >
        Add to board
      </Button>
      {open === 'list' && <SavedList list={list} canDelete={canSave} onClose={() => setOpen(null)} />}
      {open === 'save' &&
        !list.value &&
        (list.error ? <Failure error={list.error} onRetry={list.reload} /> : <Loading what="what is saved" />)}
      {open === 'save' && list.value && (
        <SaveDialog
          question={question as object}
          display={display}
          current={current}
          onClose={() => setOpen(null)}
          onSaved={list.reload}
        />
      )}
      {open === 'board' && (
        <AddToBoard question={question as object} display={display} saved={current} onClose={() => setOpen(null)} />
      )}
    </div>
  )
}

interface SavedListProps {
  list: Loaded<SavedQuestion[]>
  canDelete: boolean
  onClose: () => void
}

function SavedList({ list: { value, error, reload }, canDelete, onClose }: SavedListProps) {
  const [toDelete, setToDelete] = useState<SavedQuestion | null>(null)
  if (toDelete) {
    const remove = async () => {
      await deleteQuestion(toDelete.id)
      reload()
    }
    return (
      <ActionDialog
        title="Delete saved question"
        action="Delete question"
        onConfirm={remove}
        onClose={() => setToDelete(null)}
      >
        <p>This deletes “{toDelete.name}” for everyone and removes it from boards.</p>
      </ActionDialog>
    )
  }
  return (
    <Dialog title="Saved questions" onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && !error && <Loading what="the saved questions" />}
      {value?.length === 0 && (
        <p class={textStyles.hint}>Nothing is saved yet. Ask a question, then save it under a name.</p>
      )}
      <ul class={listStyles.list} aria-label="Saved questions">
        {value?.map((saved) => (
          <li key={saved.id}>
            <a href={linkToExplore(saved.question, parseDisplay(saved.display), saved.id)} onClick={onClose}>
              {saved.name}
            </a>
            {canDelete && <RemoveButton label={`Delete ${saved.name}`} onClick={() => setToDelete(saved)} />}
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

interface SaveDialogProps {
  question: object
  display: Display
  current: SavedQuestion | undefined
  onClose: () => void
  onSaved: () => void
}

/** Asks for a name; an opened question can be overwritten or saved as a new one. */
function SaveDialog({ question, display, current, onClose, onSaved }: SaveDialogProps) {
  const [conflict, setConflict] = useState<{ kind: Conflict; id: string; name: string } | null>(null)
  const show = (question: object, display: Display, id: string) => {
    onSaved()
    navigate(linkToExplore(question, display, id), 'replace')
  }
  const save = async (name: string, { id, revision }: { id: string; revision: number | null }) => {
    try {
      await saveQuestion({ id, revision, name, question, display })
    } catch (error) {
      const kind = await findConflict(error, () => readSavedQuestion(id))
      if (kind) setConflict({ kind, id, name })
      throw error
    }
    show(question, display, id)
  }
  const saveNew = (name: string) => save(name, { id: createId(), revision: 0 })
  if (conflict) {
    const { kind, id, name } = conflict
    const load = async () => {
      const theirs = await readSavedQuestion(id)
      show(theirs.question, parseDisplay(theirs.display), id)
    }
    return (
      <ConflictDialog
        what="question"
        conflict={kind}
        onLoad={load}
        onOverwrite={() => save(name, { id, revision: null })}
        onSaveNew={() => saveNew(name)}
        onClose={onClose}
      />
    )
  }
  return (
    <NameDialog
      title="Save question"
      name={current?.name ?? proposeName(question)}
      action={current ? { text: 'Save changes', act: (name) => save(name, current) } : { text: 'Save', act: saveNew }}
      other={current && { text: 'Save as another', act: saveNew }}
      onClose={onClose}
    />
  )
}
