import type { EventName } from '../../contract/responses.js'
import { formatCompact } from './format.js'

/** A suggestion of a combobox. */
export interface Choice {
  value: string
  /** a shorter text that also finds it, such as the name of a property without `properties.` */
  name?: string
  /** other words that people may call it, which also find it */
  words?: readonly string[]
  /** shown next to the value, such as its frequency */
  note?: string
  /** why it is unsuitable and cannot be chosen; shown instead of the note */
  unfit?: string
}

/** Maximum number of suggestions. */
export const MAX_CHOICES = 100

/**
 * The choices that match a text, ignoring case and punctuation: exact matches first, then matches at the beginning, at
 * the beginning of a word, and anywhere. Those that cannot be chosen come last.
 */
export function filterChoices(text: string, choices: readonly Choice[]): Choice[] {
  const query = fold(text)
  const ranked = choices.flatMap((choice) => {
    const texts = [...listTexts(choice), ...(choice.words ?? [])]
    const rank = Math.min(...texts.map((one) => rankMatch(one, text.trim(), query)))
    return rank < MISSES ? [{ choice, rank: choice.unfit === undefined ? rank : rank + MISSES }] : []
  })
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MAX_CHOICES)
    .map(({ choice }) => choice)
}

/** The names of events that match a text, with their counts. @param more choices that come after them */
export function filterEvents(text: string, events: readonly EventName[], more: readonly Choice[] = []): Choice[] {
  return filterChoices(text, [
    ...events.map(({ event, count }) => ({ value: event, note: formatCompact(count) })),
    ...more,
  ])
}

/** Whether the typed text is exactly this choice. */
export function isSpelled(choice: Choice, text: string): boolean {
  return listTexts(choice).includes(text.trim())
}

const MISSES = 5

function rankMatch(text: string, typed: string, query: string): number {
  if (text === typed) return 0
  const folded = fold(text)
  if (folded === query) return 1
  if (folded.startsWith(query)) return 2
  if (folded.includes(` ${query}`)) return 3
  return folded.includes(query) ? 4 : MISSES
}

function listTexts({ value, name }: Choice): string[] {
  return name === undefined ? [value] : [name, value]
}

/**
 * Lower case, with one space for any punctuation. Letters that a Japanese keyboard makes wide become narrow, and the
 * invisible marks of copied text vanish.
 */
function fold(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\p{Cf}/gu, '')
    .replace(/[\s_.:/-]+/g, ' ')
    .trim()
}
