import { CopyButton } from './copy.js'

/** Something to run, and a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre class="json" tabIndex={0} role="region" aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} />
    </div>
  )
}
