import { useId, useState } from 'preact/hooks'
import { type Display, displayOf, exploreLink } from '../../lib/question.js'
import { go } from '../../lib/route.js'
import { deleteQuestion, newId, type Saved, savedQuestions, saveQuestion } from '../../lib/saved.js'
import { type Loaded, useLoaded } from '../../lib/use-loaded.js'
import { Confirm, Dialog } from '../../ui/dialog.js'
import { Failure, Loading } from '../../ui/notice.js'

interface SavedBarProps {
  question: unknown
  display: Display
  /** id of the saved question that the page shows, changed or not */
  saved: string
  canSave: boolean
}

/** Opens what was saved, and saves what is shown. */
export function SavedBar({ question, display, saved, canSave }: SavedBarProps) {
  const [open, setOpen] = useState<'list' | 'save' | null>(null)
  const list = useLoaded(open === null && saved === '' ? null : 'saved', savedQuestions)
  const current = list.value?.find(({ id }) => id === saved)
  return (
    <div class="saved-bar">
      {current && <span class="saved-name">{current.name}</span>}
      <button type="button" onClick={() => setOpen('list')}>
        Saved questions
      </button>
      <button
        type="button"
        class="primary"
        disabled={!canSave || question === undefined}
        title={canSave ? undefined : 'Saving needs a secret key: sign in with one.'}
        onClick={() => setOpen('save')}
      >
        Save
      </button>
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
    </div>
  )
}

interface SavedListProps {
  list: Loaded<Saved[]>
  canDelete: boolean
  onClose: () => void
}

function SavedList({ list: { value, error, reload }, canDelete, onClose }: SavedListProps) {
  const [doomed, setDoomed] = useState<Saved | null>(null)
  if (doomed) {
    const remove = async () => {
      await deleteQuestion(doomed.id)
      reload()
    }
    return (
      <Confirm
        title="Delete saved question"
        action="Delete question"
        onConfirm={remove}
        onClose={() => setDoomed(null)}
      >
        <p>“{doomed.name}” is deleted for everybody, also where boards show it.</p>
      </Confirm>
    )
  }
  return (
    <Dialog title="Saved questions" onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && !error && <Loading what="the saved questions" />}
      {value?.length === 0 && <p class="hint">Nothing is saved yet. Ask a question, then save it under a name.</p>}
      <ul class="saved-list" aria-label="Saved questions">
        {value?.map((saved) => (
          <li key={saved.id}>
            <a href={exploreLink(saved.question, displayOf(saved.display), saved.id)} onClick={onClose}>
              {saved.name}
            </a>
            {canDelete && (
              <button type="button" class="plain" aria-label={`Delete ${saved.name}`} onClick={() => setDoomed(saved)}>
                ✕
              </button>
            )}
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

interface SaveDialogProps {
  question: object
  display: Display
  current: Saved | undefined
  onClose: () => void
  onSaved: () => void
}

/** Asks for a name; what was opened can be saved again, or as another. */
function SaveDialog({ question, display, current, onClose, onSaved }: SaveDialogProps) {
  const id = useId()
  const [name, setName] = useState(current?.name ?? '')
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const save = async (as: Pick<Saved, 'id' | 'revision'>) => {
    setBusy(true)
    setError(null)
    try {
      await saveQuestion({ ...as, name: name.trim(), question, display })
      onClose()
      onSaved()
      go(exploreLink(question, display, as.id), 'replace')
    } catch (failure) {
      setError(failure as Error)
      setBusy(false)
    }
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    save(current ?? { id: newId(), revision: 0 })
  }
  return (
    <Dialog title="Save question" onClose={onClose}>
      <form onSubmit={submit}>
        <label for={id}>Name</label>
        <input
          id={id}
          value={name}
          maxLength={255}
          required
          autofocus
          onInput={(event) => setName(event.currentTarget.value)}
        />
        {error && <Failure error={error} />}
        <footer>
          {current && (
            <button type="button" disabled={isBusy || !name.trim()} onClick={() => save({ id: newId(), revision: 0 })}>
              Save as another
            </button>
          )}
          <button type="submit" class="primary" disabled={isBusy || !name.trim()}>
            {current ? 'Save changes' : 'Save'}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
