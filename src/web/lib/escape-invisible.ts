/**
 * Characters that are invisible or affect their neighbours: control characters, lone surrogates, bidirectional marks
 * and overrides, and zero-width spaces. The zero-width joiner is allowed, because emoji need it.
 */
const UNSEEN = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu
/**
 * Characters at the beginning or the end that look like nothing there: spaces of any width, joiners and fillers. Within
 * a name they are left alone, because some languages need them.
 */
const UNSEEN_EDGES =
  /^[\u115f-\u1160\u200c-\u200d\p{Zs}\u2800\u3164\uffa0]+|[\u115f-\u1160\u200c-\u200d\p{Zs}\u2800\u3164\uffa0]+$/gu

/**
 * Shows a name on one line with every character visible. For display only: requests, links and the clipboard use the
 * original.
 */
export function escapeInvisible(name: string): string {
  const seen = name
    .replace(UNSEEN, escapeCharacter)
    .replace(UNSEEN_EDGES, (edge) => edge.replaceAll(' ', '␣').replace(/[^␣]/g, escapeCharacter))
  return seen === '' ? '(empty)' : seen
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
