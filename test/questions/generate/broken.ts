import fc from 'fast-check'
import type { Question } from '../reference/question.js'

/** Values that are invalid in most places. */
const misfit = fc.oneof(
  fc.constantFrom<unknown>(
    ...[null, true, -1, 0, 0.5, 1e300, 2 ** 53, '', '*', '$other', 'x'.repeat(2000), '2026-02-30', '2026-13-01T99:00Z'],
    ...[
      '+02:00',
      'Europe/Nowhere',
      '7 d',
      '0d',
      '99999999w',
      '(',
      '[a-',
      'a{1001}',
      '(?<=a)b',
      'properties',
      'properties.',
    ],
    ...['user', 'insert_id', "'", '\\', '\0', '\ud83d', '{p1:String}', '{{', '--', '/*'],
    ...[
      [],
      {},
      [[]],
      ['and'],
      ['is'],
      ['not', null],
      ['is', 'event'],
      ['gt', 'event', null],
      ['matches', 'event', '('],
    ],
    ...[{ event: null }, { event: [] }, ['properties'], ['properties', 5], Array.from({ length: 1001 }, String)],
  ),
  fc.jsonValue(),
)

/** A question in which something is wrong or missing; it may still be valid. */
export function broken(question: fc.Arbitrary<Question>): fc.Arbitrary<unknown> {
  const changes = fc.array(fc.tuple(fc.nat(), fc.option(misfit, { nil: undefined })), { minLength: 1, maxLength: 3 })
  return fc.tuple(question, changes).map(([whole, changes]) => {
    return changes.reduce<unknown>((value, [place, other]) => replaced(value, place, other), whole)
  })
}

/** A value with one of its inner values replaced. */
function replaced(value: unknown, place: number, other: unknown): unknown {
  const members = typeof value === 'object' && value !== null ? Object.entries(value) : []
  const turn = place % (members.length + 1)
  const member = members[turn]
  if (!member) return other
  const [name, inner] = member
  const changed = replaced(inner, Math.floor(place / (members.length + 1)), other)
  return Array.isArray(value) ? value.with(turn, changed) : { ...(value as object), [name]: changed }
}
