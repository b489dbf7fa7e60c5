import { CopyButton } from './copy.js'
import { ExactText } from './scrollable.js'

/** Something to run, and a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <ExactText label={label} text={text} />
      <CopyButton text={text} />
    </div>
  )
}
