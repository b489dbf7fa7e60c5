/**
 * Characters that are invisible or affect their neighbours: control characters, lone surrogates, bidirectional marks
 * and overrides, and zero-width spaces. The zero-width joiner is allowed, because emoji need it.
 */
const UNSEEN = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/**
 * Shows a name on one line with every character visible. For display only: requests, links and the clipboard use the
 * original.
 */
export function escapeInvisible(name: string): string {
  const seen = name.replace(UNSEEN, escapeCharacter).replace(/^ +| +$/g, (spaces) => '␣'.repeat(spaces.length))
  return seen === '' ? '(empty)' : seen
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
