import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Choice } from '../lib/choices.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { useLatest } from '../lib/use-latest.js'
import * as styles from './combobox.module.css'
import * as textStyles from './text.module.css'

/** Completes a text; cancelled when the user types on. */
type Suggest = (text: string, signal: AbortSignal) => Promise<Choice[]>

interface ComboboxProps {
  label: string
  value: string
  onChange: (value: string) => void
  suggest: Suggest
  placeholder?: string
  /** whether the label is for screen readers only */
  hidesLabel?: boolean
  /** whether choosing adds the value elsewhere, such as to a list, and empties the field */
  adds?: boolean
}

/** Debounce while the user types, ms. */
const TYPING_MS = 120

/** A text field with suggestions (the ARIA combobox pattern). */
export function Combobox({ label, value, onChange, suggest, placeholder, hidesLabel, adds }: ComboboxProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const [isOpen, setOpen] = useState(false)
  const { choices, active, setActive } = useChoices(isOpen ? (text === value ? '' : text) : null, suggest)
  useEffect(() => setText(value), [value])

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
      setActive(Math.max(-1, Math.min(choices.length - 1, active + step)))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      choose(choices[active]?.value ?? text)
    } else if (event.key === 'Escape') {
      setOpen(false)
      setText(value)
    }
  }
  const isShown = isOpen && choices.length > 0
  return (
    <div class={styles.combobox}>
      <label for={id} class={hidesLabel ? textStyles.hidden : undefined}>
        {label}
      </label>
      <input
        id={id}
        role="combobox"
        aria-expanded={isShown}
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
      <ChoiceList id={id} label={label} choices={choices} active={active} isShown={isShown} onChoose={choose} />
    </div>
  )
}

/** Loads the suggestions for a text and tracks the active one. @param text null while the list is closed */
function useChoices(text: string | null, suggest: Suggest) {
  const [choices, setChoices] = useState<Choice[]>([])
  const [active, setActive] = useState(-1)
  const latest = useLatest(suggest)
  useEffect(() => {
    if (text === null) return
    const stop = new AbortController()
    const timer = setTimeout(() => {
      latest.current(text, stop.signal).then(
        (suggestions) => {
          if (stop.signal.aborted) return
          setChoices(suggestions)
          setActive(-1)
        },
        () => undefined,
      )
    }, TYPING_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [text, latest])
  return { choices, active, setActive }
}

interface ChoiceListProps {
  /** id of the text field */
  id: string
  label: string
  choices: Choice[]
  /** index; -1 for none */
  active: number
  isShown: boolean
  onChoose: (value: string) => void
}

function ChoiceList({ id, label, choices, active, isShown, onChoose }: ChoiceListProps) {
  const list = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    if (isShown) list.current?.children[active]?.scrollIntoView({ block: 'nearest' })
  }, [active, isShown])
  return (
    <div ref={list} id={`${id}-choices`} role="listbox" aria-label={label} hidden={!isShown}>
      {choices.map(({ value, note }, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the input keeps the focus and handles the keys
        <div
          key={value}
          id={`${id}-${index}`}
          role="option"
          tabIndex={-1}
          aria-selected={index === active}
          // Keeps the focus in the input; otherwise the list would close before the click.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(value)}
        >
          <bdi>{escapeInvisible(value)}</bdi>
          {note && <small>{note}</small>}
        </div>
      ))}
    </div>
  )
}
