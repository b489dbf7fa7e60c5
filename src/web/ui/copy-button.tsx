import { useEffect, useState } from 'preact/hooks'
import * as styles from './copy-button.module.css'
import * as textStyles from './text.module.css'

/** How long the button shows the result. */
const RESULT_MS = 2_000

interface CopyProps {
  /** what is copied, exactly */
  text: string
  /** on the button, such as “Copy link” */
  label?: string
}

/** A button that copies a text. */
export function CopyButton({ text, label = 'Copy' }: CopyProps) {
  const [result, setResult] = useState<'' | 'Copied' | 'Could not copy'>('')
  useEffect(() => {
    if (!result) return
    const timer = setTimeout(() => setResult(''), RESULT_MS)
    return () => clearTimeout(timer)
  }, [result])
  const copy = async () => setResult((await copyText(text)) ? 'Copied' : 'Could not copy')
  return (
    <button type="button" class={styles.copy} onClick={copy}>
      {label}
      <span role="status">{result}</span>
    </button>
  )
}

/** @returns whether the browser allowed it */
async function copyText(text: string): Promise<boolean> {
  try {
    // Missing in an insecure context.
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text)
      return true
    }
    return copySelected(text)
  } catch {
    return false
  }
}

function copySelected(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.className = textStyles.hidden
  // Elements outside an open dialog cannot be selected.
  const home = before?.closest('dialog') ?? document.body
  home.append(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  if (before instanceof HTMLElement) before.focus()
  return isCopied
}
