import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useLatest } from '../hooks/use-latest.js'
import { useLoaded } from '../hooks/use-loaded.js'
import { type Choice, isSpelled } from '../lib/choices.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import * as styles from './combobox.module.css'
import * as textStyles from './text.module.css'

/** The choices for a text, best match first; cancelled when the user types on. */
type Suggest = (text: string, signal: AbortSignal) => Promise<Choice[]>

interface ComboboxProps {
  label: string
  value: string
  onChange: (value: string) => void
  suggest: Suggest
  placeholder?: string
  /** whether the label is for screen readers only */
  hidesLabel?: boolean
  /** whether only suggestions can be chosen, and not any text */
  isStrict?: boolean
  /** whether Enter keeps a text as typed even if a suggestion begins with it, such as a number */
  keepsTyped?: (text: string) => boolean
  /** what is wrong with the value */
  problem?: string | undefined
}

interface FieldEvent {
  currentTarget: HTMLInputElement
}

/** Debounce while the user types, ms. */
const TYPING_MS = 120
/** Between a list and the edge of the page. */
const EDGE_PX = 8
/** `keyCode` of a key that an input method handles, for browsers that send it after the composition has ended. */
const COMPOSING = 229

/** A row of the list: a suggestion, or at the end the text itself. */
interface Row extends Choice {
  isTyped?: boolean
}

/** The suggestions that were loaded last, and their text; null for none. */
interface Suggested {
  text: string | null
  choices: Choice[]
}

const NOTHING: Suggested = { text: null, choices: [] }

/**
 * A text field with suggestions (the ARIA combobox pattern). Enter, or leaving the field, selects the highlighted row,
 * at first the best match, so a part of a name is never used as a name. The last row uses the text as typed. Escape
 * restores the value.
 */
export function Combobox(props: ComboboxProps) {
  const { label, value, placeholder, hidesLabel, problem } = props
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const { text, rows, active, isOpen, error, choose, handlers } = useCombobox(props, input)
  const isShown = isOpen && rows.length > 0
  const hasProblem = problem !== undefined && text === value
  return (
    <div class={styles.combobox}>
      <label for={id} class={hidesLabel ? textStyles.hidden : undefined}>
        {label}
      </label>
      <input
        ref={input}
        id={id}
        role="combobox"
        aria-expanded={isShown}
        aria-controls={`${id}-choices`}
        aria-autocomplete="list"
        aria-activedescendant={isShown && active >= 0 ? `${id}-${active}` : undefined}
        aria-invalid={hasProblem}
        aria-describedby={hasProblem ? `${id}-problem` : undefined}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        {...handlers}
      />
      {hasProblem && (
        <small id={`${id}-problem`} class={styles.problem}>
          {problem}
        </small>
      )}
      {error && (
        <small role="status" class={styles.problem}>
          Suggestions could not be loaded: {error.message}
        </small>
      )}
      <ChoiceList id={id} label={label} rows={rows} active={active} isShown={isShown} onChoose={choose} />
    </div>
  )
}

function useCombobox(
  { value, onChange, suggest, isStrict, keepsTyped }: ComboboxProps,
  input: { current: HTMLInputElement | null },
) {
  /** null unless the user has typed something and not chosen yet */
  const [typed, setTyped] = useState<string | null>(null)
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(-1)
  /** whether Enter was pressed before the suggestions for the text had arrived */
  const [isWaiting, setWaiting] = useState(false)
  const text = typed ?? value
  const isEdited = text !== value
  const query = isEdited ? text : ''
  const { loaded, error } = useChoices(isOpen || isWaiting ? query : null, suggest)
  const isLoaded = loaded.text === query
  // Without suggestions, nobody knows whether the text is only a part of a name, so it is not highlighted.
  const rows = listRows(error ? { text: query, choices: [] } : loaded, isStrict)
  /** whether the choice was already made; a focused field that is removed would otherwise repeat it */
  const isDone = useRef(true)

  const close = () => {
    isDone.current = true
    setTyped(null)
    setOpen(false)
    setWaiting(false)
    setActive(-1)
  }
  const choose = ({ value: chosen, unfit }: Choice) => {
    if (unfit !== undefined) return
    close()
    if (chosen !== value) onChange(chosen)
  }
  const pickRow = (row: Row | undefined) => {
    if (row) choose(row)
    else if (text.trim() === '') choose({ value: '' })
    else if (document.activeElement !== input.current) close()
    else setWaiting(false)
  }
  const arrive = useLatest(() => {
    const best = findBest(rows, loaded.text ?? '', keepsTyped)
    // Reopening the list, for example with an arrow key, does not move the highlight.
    setActive((before) => (loaded.text === '' ? Math.min(before, rows.length - 1) : best))
    if (isWaiting && isLoaded) pickRow(rows[best])
  })
  // A layout effect, so that it runs before the next key: Enter takes the row that this highlights.
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when suggestions arrive
  useLayoutEffect(() => arrive.current(), [loaded, arrive])
  /** Selects the highlighted row, or waits for the rows that match the latest text. */
  const enter = () => {
    const isReady = error ? active >= 0 : isLoaded
    if (isEdited && !isReady) setWaiting(true)
    else if (isEdited || active >= 0) pickRow(rows[active])
    else close()
  }
  const move = (step: number) => {
    setOpen(true)
    setActive(Math.max(-1, Math.min(rows.length - 1, active + step)))
  }
  const edit = (next: string) => {
    isDone.current = false
    setTyped(next)
    setOpen(true)
    setWaiting(false)
    if (next === '') setActive(-1)
  }
  const leave = () => {
    // The focus is in another window.
    if (document.activeElement === input.current) return
    if (isEdited && !isDone.current) enter()
    else close()
    setOpen(false)
  }
  const handlers = useHandlers({
    isOpen,
    isEdited,
    enter,
    move,
    edit,
    leave,
    open: () => setOpen(true),
    restore: close,
  })
  return { text, rows, active, isOpen, error, choose, handlers }
}

interface Actions {
  isOpen: boolean
  isEdited: boolean
  enter: () => void
  move: (step: number) => void
  edit: (text: string) => void
  leave: () => void
  open: () => void
  restore: () => void
}

/** The event handlers of the text field. */
function useHandlers({ isOpen, isEdited, enter, move, edit, leave, open, restore }: Actions) {
  const wasOpen = useRef(false)
  const onKeyDown = (event: KeyboardEvent) => {
    // While an input method composes text, its keys are not ours: Enter accepts a conversion.
    if (event.isComposing || event.keyCode === COMPOSING) return
    if (event.key === 'Escape' && !isOpen && !isEdited) return
    const act = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: enter, Escape: restore }[event.key]
    if (!act) return
    act()
    event.preventDefault()
    // Otherwise, Escape would also close a dialog around the field.
    event.stopPropagation()
  }
  return {
    onInput: (event: FieldEvent) => edit(event.currentTarget.value),
    onFocus: open,
    onBlur: leave,
    onKeyDown,
    onMouseDown: () => {
      wasOpen.current = isOpen
    },
    onClick: ({ currentTarget: field }: FieldEvent) => {
      open()
      const hasSelection = field.selectionStart !== field.selectionEnd
      if (!isEdited && !wasOpen.current && !hasSelection) field.select()
    },
  }
}

function listRows({ text, choices }: Suggested, isStrict = false): Row[] {
  const typed = text?.trim() ?? ''
  const isOffered = choices.some((choice) => choice.unfit === undefined && isSpelled(choice, typed))
  return typed === '' || isStrict || isOffered ? choices : [...choices, { value: typed, isTyped: true }]
}

/** The index of the row that Enter selects by default; -1 for none. */
function findBest(rows: readonly Row[], text: string, keepsTyped: ComboboxProps['keepsTyped']): number {
  if (text.trim() === '') return -1
  const typed = rows.findIndex(({ isTyped }) => isTyped)
  if (typed >= 0 && keepsTyped?.(text)) return typed
  const best = rows.findIndex(({ unfit }) => unfit === undefined)
  // If the typed text is listed but unsuitable, the user must choose it explicitly.
  return best === typed && rows.length > 1 ? -1 : best
}

/**
 * Loads the suggestions for a text, again after a transient failure.
 * @param text null while none are needed
 */
function useChoices(text: string | null, suggest: Suggest): { loaded: Suggested; error: Error | null } {
  const { value, error } = useLoaded(text, async (signal): Promise<Suggested> => {
    if (text) await new Promise((resolve) => setTimeout(resolve, TYPING_MS))
    signal.throwIfAborted()
    return { text, choices: await suggest(text ?? '', signal) }
  })
  return { loaded: value ?? NOTHING, error }
}

interface ChoiceListProps {
  /** id of the text field */
  id: string
  label: string
  rows: Row[]
  /** index; -1 for none */
  active: number
  isShown: boolean
  onChoose: (row: Row) => void
}

function ChoiceList({ id, label, rows, active, isShown, onChoose }: ChoiceListProps) {
  const list = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    if (isShown) list.current?.children[active]?.scrollIntoView({ block: 'nearest' })
  }, [active, isShown])
  // On a phone, a list that is wider than its field would make the page scroll to the side.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows determine the width
  useLayoutEffect(() => {
    const { current } = list
    if (!current || !isShown) return
    current.style.left = ''
    const overhang = current.getBoundingClientRect().right + EDGE_PX - document.documentElement.clientWidth
    if (overhang > EDGE_PX) current.style.left = `${-overhang}px`
  }, [rows, isShown])
  return (
    <div
      ref={list}
      id={`${id}-choices`}
      role="listbox"
      aria-label={label}
      hidden={!isShown}
      // Keeps the focus in the input; otherwise the list would close before a click, or when it is scrolled.
      onMouseDown={(event) => event.preventDefault()}
    >
      {rows.map((row, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the input keeps the focus and handles the keys
        <div
          key={row.isTyped ? 'typed' : `choice ${row.value}`}
          id={`${id}-${index}`}
          role="option"
          tabIndex={-1}
          aria-selected={index === active}
          aria-disabled={row.unfit !== undefined}
          onClick={() => onChoose(row)}
        >
          <RowText {...row} />
        </div>
      ))}
    </div>
  )
}

function RowText({ value, note, unfit, isTyped }: Row) {
  const text = <bdi>{escapeInvisible(value)}</bdi>
  if (isTyped) return <span>Use “{text}”</span>
  const detail = unfit ?? note
  return (
    <>
      {text}
      {detail && <small>{detail}</small>}
    </>
  )
}
