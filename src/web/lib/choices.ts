/** A suggestion of a combobox. */
export interface Choice {
  value: string
  /** shown next to the value, such as its frequency */
  note?: string
}

/** Maximum number of suggestions. */
export const MAX_CHOICES = 50

/** The choices that contain a text, case-insensitively. */
export function filterChoices(text: string, choices: Choice[]): Choice[] {
  const query = text.toLowerCase()
  return choices.filter(({ value }) => value.toLowerCase().includes(query)).slice(0, MAX_CHOICES)
}
