import { indentJson } from '../lib/json-text.js'
import * as styles from './code.module.css'
import { CopyButton } from './copy-button.js'
import { Scrollable } from './scrollable.js'

/** A text with its line breaks, unchanged. */
export function TextBlock({ label, text }: { label: string; text: string }) {
  return (
    <Scrollable label={label} class={styles.text}>
      <pre>{text}</pre>
    </Scrollable>
  )
}

/** A JSON text, indented. */
export function Json({ text, label }: { text: string; label: string }) {
  return <TextBlock label={label} text={indentJson(text)} />
}

/** A command or code, with a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class={styles.code}>
      <TextBlock label={label} text={text} />
      <CopyButton text={text} />
    </div>
  )
}
