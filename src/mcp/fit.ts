/** Maximum numbers of list elements or object members, tried in turn until the value fits. */
const STEPS = [1000, 500, 200, 100, 50, 20, 10, 5, 2, 1]
/** Objects with a fixed shape have fewer members, and are never cut. */
const LEAST_MEMBERS = 12
/** Characters of a text per allowed element. */
const CHARACTERS = 40
const LEAST_CHARACTERS = 200

interface Most {
  elements: number
  members: number
  characters: number
}

export interface Fitted {
  value: Record<string, unknown>
  text: string
  /** a sentence that says what is missing */
  note: string
}

/** Cuts lists, large objects and long texts at any depth, until a value's JSON has at most `room` characters. */
export function fit(value: Record<string, unknown>, room: number): Fitted {
  for (const elements of STEPS) {
    const most = {
      elements,
      members: Math.max(LEAST_MEMBERS, elements),
      characters: Math.max(LEAST_CHARACTERS, elements * CHARACTERS),
    }
    if (measureJson(value, most, room) > room) continue
    const cut = shorten(value, most) as Record<string, unknown>
    const text = JSON.stringify(cut)
    if (text.length > room) continue
    const note =
      `The result was too long and was shortened: lists and objects keep their first ${elements} entries ` +
      `(objects ${most.members}), strings their first ${most.characters} characters.`
    return { value: cut, text, note }
  }
  return { value: {}, text: '{}', note: 'The result is too long to show any of it.' }
}

/** Estimates the length of a value's JSON; stops counting beyond the room. */
function measureJson(value: unknown, most: Most, room: number): number {
  if (typeof value === 'string') return 2 + Math.min(value.length, most.characters)
  if (typeof value !== 'object' || value === null) return 5
  let length = 2
  const entries: Iterable<[string, unknown]> = Array.isArray(value)
    ? value.slice(0, most.elements).map((element): [string, unknown] => ['', element])
    : Object.entries(value).slice(0, most.members)
  for (const [name, member] of entries) {
    length += 1 + (name === '' ? 0 : 3 + Math.min(name.length, most.characters))
    length += measureJson(member, most, room - length)
    if (length > room) return length
  }
  return length
}

function shorten(value: unknown, most: Most): unknown {
  if (typeof value === 'string') return shortText(value, most)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.slice(0, most.elements).map((element) => shorten(element, most))
  const members = Object.entries(value).slice(0, most.members)
  return Object.fromEntries(members.map(([name, member]) => [shortText(name, most), shorten(member, most)]))
}

/** Cuts a text, but not in the middle of a surrogate pair. */
function shortText(text: string, { characters }: Most): string {
  return text.length <= characters ? text : `${text.slice(0, characters).replace(/[\ud800-\udbff]$/, '')}…`
}
