import { indented } from '../lib/indented.js'

/** A JSON text, indented. */
export function Json({ text, label }: { text: string; label: string }) {
  return (
    <pre class="json" tabIndex={0} role="region" aria-label={label}>
      {indented(text)}
    </pre>
  )
}
