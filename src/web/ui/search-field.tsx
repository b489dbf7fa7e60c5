import { useCallback, useEffect, useId, useRef, useState } from 'preact/hooks'
import { useLatest } from '../hooks/use-latest.js'
import * as styles from './search-field.module.css'
import * as textStyles from './text.module.css'

interface SearchFieldProps {
  label: string
  value: string
  placeholder?: string
  /** called with the trimmed text */
  onChange: (value: string) => void
}

/** Debounce while the user types, ms. */
const TYPING_MS = 250

/** A search field that searches while the user types, and immediately on Enter. */
export function SearchField({ label, value, placeholder, onChange }: SearchFieldProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const reported = useRef(value)
  const latest = useLatest(onChange)
  const report = useCallback(
    (text: string) => {
      reported.current = text.trim()
      latest.current(reported.current)
    },
    [latest],
  )
  useEffect(() => {
    // The reported value comes back later as a prop, and must not overwrite text typed since then. Any other value
    // comes from elsewhere, such as a link.
    if (value === reported.current) return
    reported.current = value
    setText(value)
  }, [value])
  useEffect(() => {
    if (text.trim() === value) return
    const timer = setTimeout(() => report(text), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, value, report])
  return (
    <search class={styles.searchField}>
      <label for={id} class={textStyles.hidden}>
        {label}
      </label>
      <input
        id={id}
        type="search"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder ?? label}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Enter' && report(text)}
      />
    </search>
  )
}
