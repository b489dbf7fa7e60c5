import { useState } from 'preact/hooks'
import { isObject } from '../../../contract/read-fields.js'
import { replaceProperties } from '../../api/events.js'
import { Button } from '../../ui/button.js'
import { ActionDialog } from '../../ui/dialog.js'
import * as formStyles from '../../ui/form.module.css'

interface PropertiesFormProps {
  eventId: string
  /** the current properties */
  text: string
  onSaved: (text: string) => void
  onCancel: () => void
}

/** Edits properties as text, sent exactly as typed. */
export function PropertiesForm({ eventId, text, onSaved, onCancel }: PropertiesFormProps) {
  const [typed, setTyped] = useState(text)
  const [isAsking, setAsking] = useState(false)
  const problem = findProblem(typed)
  const save = async () => {
    await replaceProperties(eventId, typed)
    onSaved(typed)
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (!problem) setAsking(true)
  }
  return (
    <>
      <form onSubmit={submit}>
        <label for="properties">Properties (JSON)</label>
        <textarea
          id="properties"
          class={formStyles.editor}
          value={typed}
          rows={12}
          spellcheck={false}
          autofocus
          aria-invalid={problem !== null}
          aria-describedby="properties-problem"
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <p id="properties-problem" class={formStyles.error} role="status">
          {problem}
        </p>
        <footer>
          <Button onClick={onCancel}>Cancel</Button>
          <Button type="submit" look="primary" disabled={problem !== null || typed === text}>
            Save…
          </Button>
        </footer>
      </form>
      {isAsking && (
        <ActionDialog
          title="Replace the properties?"
          action="Replace properties"
          onConfirm={save}
          onClose={() => setAsking(false)}
        >
          <p>Reports will use the new properties. The current ones are not kept.</p>
        </ActionDialog>
      )}
    </>
  )
}

/** Why a text cannot be properties; null if it can. */
function findProblem(text: string): string | null {
  try {
    return isObject(JSON.parse(text)) ? null : 'Properties must be a JSON object: { … }.'
  } catch (error) {
    return `This is not valid JSON: ${(error as Error).message}`
  }
}
