import { indented } from '../lib/indented.js'
import { ExactText } from './scrollable.js'

/** A JSON text, indented. */
export function Json({ text, label }: { text: string; label: string }) {
  return <ExactText label={label} text={indented(text)} />
}
