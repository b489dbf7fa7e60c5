import { useEffect, useId, useState } from 'preact/hooks'
import { indentJson, parseJson } from '../../lib/json-text.js'
import { Button } from '../../ui/button.js'
import * as formStyles from '../../ui/form.module.css'
import * as textStyles from '../../ui/text.module.css'
import { FieldErrors } from './field-errors.js'

interface JsonEditorProps {
  text: string
  /** why the form cannot edit the question */
  reason?: string
  onChange: (question: unknown) => void
}

/** A question as JSON. */
export function JsonEditor({ text, reason = '', onChange }: JsonEditorProps) {
  const id = useId()
  const [typed, setTyped] = useState(text)
  const [error, setError] = useState('')
  useEffect(() => setTyped(parseJson(text) === undefined ? text : indentJson(text)), [text])
  const apply = () => {
    try {
      onChange(JSON.parse(typed))
      setError('')
    } catch (failure) {
      setError(`This is not JSON: ${(failure as Error).message}`)
    }
  }
  return (
    <section aria-label="Question as JSON">
      {reason && <p class={textStyles.hint}>{reason}</p>}
      <label for={id}>Question as JSON</label>
      <textarea
        id={id}
        class={formStyles.editor}
        rows={16}
        spellcheck={false}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      {error && <p class={formStyles.error}>{error}</p>}
      <FieldErrors path="" />
      <Button onClick={apply}>Ask this</Button>
    </section>
  )
}
