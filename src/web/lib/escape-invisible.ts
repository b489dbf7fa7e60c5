/**
 * Characters that show nothing or change how others show: controls, halves of surrogate pairs, marks and overrides of the
 * direction of writing, and spaces without width. The joiner within emoji is none of them.
 */
const UNSEEN = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/**
 * A name as one line in which each character can be seen and none changes how its neighbours look. It is for people only:
 * what is sent, copied and linked is the name itself.
 */
export function escapeInvisible(name: string): string {
  const seen = name.replace(UNSEEN, escapeCharacter).replace(/^ +| +$/g, (spaces) => '␣'.repeat(spaces.length))
  return seen === '' ? '(empty)' : seen
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
