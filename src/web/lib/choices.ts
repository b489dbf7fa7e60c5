/** What a text field offers. */
export interface Choice {
  value: string
  /** what is said beside it, such as how often it occurs */
  note?: string
}

/** More than a list that people read has. */
export const MAX_CHOICES = 50

/** The choices that hold a text, in any case. */
export function filterChoices(text: string, choices: Choice[]): Choice[] {
  const wanted = text.toLowerCase()
  return choices.filter(({ value }) => value.toLowerCase().includes(wanted)).slice(0, MAX_CHOICES)
}
