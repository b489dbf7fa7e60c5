import { indented } from '../lib/json-text.js'
import { CopyButton } from './copy-button.js'
import { Scrollable } from './scrollable.js'

/** A text as it is, line by line. */
export function ExactText({ label, text }: { label: string; text: string }) {
  return (
    <Scrollable label={label} class="json">
      <pre>{text}</pre>
    </Scrollable>
  )
}

/** A JSON text, indented. */
export function Json({ text, label }: { text: string; label: string }) {
  return <ExactText label={label} text={indented(text)} />
}

/** Something to run, and a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <ExactText label={label} text={text} />
      <CopyButton text={text} />
    </div>
  )
}
