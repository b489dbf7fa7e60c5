import { fillQuestion, type QuestionDefaults } from '../contract/project-settings.js'
import { COUNTING, USERS } from '../contract/question-schemas.js'
import type { AnyQuestion, Question, UsersQuestion } from '../contract/questions.js'
import { isObject, readFields } from '../contract/read-fields.js'
import type { Warning } from '../contract/warning.js'
import { Faults } from './faults.js'
import { warnOfUnknownValues, warnOfUses } from './known-values.js'
import { findNames } from './names-used.js'
import { checkCell, checkRules, fillRange, warnOfSeconds } from './rules.js'
import { warnOfSessionsLeftOut } from './session-filters.js'
import { StrictReader } from './strict-reader.js'

type CountingKind = keyof typeof COUNTING
const KINDS = Object.keys(COUNTING)

/**
 * Reads a question and fills in every default. Warns about ignored fields, times in seconds, filters that no session
 * passes, and values that a field never has.
 * @param body of the request, already parsed as JSON
 * @param now epoch ms
 * @throws ApiError `invalid_request` that names every field at fault
 */
export function readQuestion(
  body: unknown,
  now: number,
  defaults: Partial<QuestionDefaults> = {},
): { question: Question; warnings: Warning[] } {
  const faults = new Faults()
  const reader = new StrictReader(faults, { checked: defaults.sessions })
  const question = readAny(fill(withoutKey(body), defaults), '', reader, now)
  faults.throwIfAny()
  if (question === null) throw new Error('the question cannot be read, but has no fault')
  const [asked, path] = question.kind === 'users' ? [question.of, '/of'] : [question, '']
  const { values, fields } = findNames(question, body)
  const ofFields = [...warnOfUnknownValues(values), ...warnOfUses(fields)]
  const ofRange = [...warnOfSeconds(asked, path), ...warnOfSessionsLeftOut(asked, path)]
  return { question, warnings: [...reader.listWarnings(), ...ofRange, ...ofFields] }
}

/** Adds the faults of a question that is part of a body. @param path of the question in the body */
export function checkQuestion(question: unknown, path: string, faults: Faults, now: number): void {
  readAny(question, path, new StrictReader(faults), now)
}

/** Adds the project's defaults; in a question about users, to the question within it. */
function fill(given: unknown, defaults: Partial<QuestionDefaults>): unknown {
  if (!isObject(given)) return given
  if (given.kind === 'users') return { ...given, of: fill(given.of, defaults) }
  return fillQuestion(given, defaults)
}

/** Removes the API key, which was read by the authentication. */
function withoutKey(body: unknown): unknown {
  if (!isObject(body)) return body
  const { apiKey: _, ...question } = body
  return question
}

/** @returns null if it cannot be read; then its faults have been reported */
function readAny(given: unknown, path: string, reader: StrictReader, now: number): Question | null {
  if (isObject(given) && given.kind === 'users') return readUsers(given, path, reader, now)
  const kind = findKind(given, path, [...KINDS, 'users'], reader)
  if (kind === null) return null
  return complete(readFields(COUNTING[kind], given, path, reader) as AnyQuestion, path, reader, now)
}

function readUsers(given: Record<string, unknown>, path: string, reader: StrictReader, now: number) {
  const kind = findKind(given.of, `${path}/of`, KINDS, reader)
  if (kind === null) return null
  const question = readFields(USERS[kind], given, path, reader) as UsersQuestion
  const of = complete(question.of, `${path}/of`, reader, now)
  checkCell(of, question.cell, (field, message) => reader.fault(`${path}/cell${field}`, message))
  return { ...question, of } as UsersQuestion
}

/** @param kinds for the message */
function findKind(given: unknown, path: string, kinds: readonly string[], reader: StrictReader): CountingKind | null {
  if (!isObject(given)) reader.fault(path, 'must be an object')
  const kind = KINDS.find((one) => isObject(given) && one === given.kind)
  if (kind === undefined) reader.fault(`${path}/kind`, `must be one of ${kinds.join(', ')}`)
  return (kind as CountingKind | undefined) ?? null
}

/** Fills in what depends on several fields, and checks the rules between them. */
function complete(question: AnyQuestion, path: string, reader: StrictReader, now: number): AnyQuestion {
  const fault = (field: string, message: string) => reader.fault(`${path}${field}`, message)
  const { kind, from: _, to: __, ...rest } = question
  const complete = { kind, ...fillRange(question, now, fault), ...rest } as AnyQuestion
  checkRules(complete, fault)
  return complete
}
