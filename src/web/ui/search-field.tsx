import { useEffect, useId, useRef, useState } from 'preact/hooks'

interface SearchFieldProps {
  label: string
  value: string
  placeholder?: string
  onChange: (value: string) => void
}

/** For fast typists, one search in a while is enough. */
const TYPING_MS = 250

/** A field that searches while one types, and at once with Enter. */
export function SearchField({ label, value, placeholder, onChange }: SearchFieldProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const latest = useRef(onChange)
  latest.current = onChange
  useEffect(() => setText(value), [value])
  useEffect(() => {
    if (text === value) return
    const timer = setTimeout(() => latest.current(text), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, value])
  return (
    <search class="search-field">
      <label for={id} class="hidden">
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
        onKeyDown={(event) => event.key === 'Enter' && onChange(text)}
      />
    </search>
  )
}
