import { useEffect, useId, useRef, useState } from 'preact/hooks'

export interface Choice {
  value: string
  /** what is said beside it, such as how often it occurs */
  note?: string
}

interface ComboboxProps {
  label: string
  value: string
  onChange: (value: string) => void
  /** what completes a text; it is cancelled if more is typed meanwhile */
  suggest: (text: string, signal: AbortSignal) => Promise<Choice[]>
  placeholder?: string
  /** whether the label is for screen readers only */
  hidesLabel?: boolean
  /** whether what is chosen goes elsewhere, such as into a list, and the field is empty again */
  adds?: boolean
}

/** For fast typists, one request in a while is enough. */
const TYPING_MS = 120

/** A text field that completes what is typed (the pattern “combobox” of the ARIA practices). */
export function Combobox({ label, value, onChange, suggest, placeholder, hidesLabel, adds }: ComboboxProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const [choices, setChoices] = useState<Choice[]>([])
  const [active, setActive] = useState(-1)
  const [isOpen, setOpen] = useState(false)
  const latest = useRef(suggest)
  latest.current = suggest

  useEffect(() => setText(value), [value])
  useEffect(() => {
    if (!isOpen) return
    const stop = new AbortController()
    const timer = setTimeout(() => {
      latest.current(text === value ? '' : text, stop.signal).then(
        (found) => {
          if (stop.signal.aborted) return
          setChoices(found)
          setActive(-1)
        },
        () => undefined,
      )
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [text, isOpen, value])

  const choose = (chosen: string) => {
    setText(adds ? value : chosen)
    setOpen(false)
    if (chosen !== value) onChange(chosen)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      setOpen(true)
      const step = event.key === 'ArrowDown' ? 1 : -1
      setActive((before) => Math.max(-1, Math.min(choices.length - 1, before + step)))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      choose(choices[active]?.value ?? text)
    } else if (event.key === 'Escape') {
      setOpen(false)
      setText(value)
    }
  }
  return (
    <div class="combobox">
      <label for={id} class={hidesLabel ? 'hidden' : undefined}>
        {label}
      </label>
      <input
        id={id}
        role="combobox"
        aria-expanded={isOpen && choices.length > 0}
        aria-controls={`${id}-choices`}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          setActive(-1)
          setOpen(true)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => {
          setOpen(false)
          if (text !== value) choose(text)
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={`${id}-choices`} role="listbox" aria-label={label} hidden={!isOpen || choices.length === 0}>
        {choices.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input has the focus and handles the keys
          <li
            key={choice.value}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === active}
            // The input would lose the focus, and the list would close before the click.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(choice.value)}
          >
            <span>{choice.value}</span>
            {choice.note && <small>{choice.note}</small>}
          </li>
        ))}
      </ul>
    </div>
  )
}
