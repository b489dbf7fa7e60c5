import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { FieldName } from '../../../contract/questions.js'
import type { Warning } from '../../../contract/warning.js'
import { getAt, setAt } from '../../lib/json-pointer.js'

/** Matches the path of a warning about a value in a filter, rather than about a name. */
const OF_VALUE = /\/where\b.*\/2\/\d+$/

/** The names of events and properties that the last answer warned about, as JSON. */
export const DoubtsContext = createContext<ReadonlySet<string>>(new Set())

/** @param question as it was sent */
export function findDoubts(question: unknown, warnings: readonly Warning[] = []): ReadonlySet<string> {
  const names = warnings.filter(({ path }) => !OF_VALUE.test(path))
  return new Set(names.map(({ path }) => JSON.stringify(getAt(question, path))))
}

/**
 * Returns a function that finds the problem with a name of an event or property, if the last answer warned about it.
 */
export function useProblem(): (name: FieldName) => string | undefined {
  const doubts = useContext(DoubtsContext)
  return (name) => (doubts.has(JSON.stringify(name)) ? 'Check this name.' : undefined)
}

/**
 * Applies a warning's suggestion to a question.
 * @param asked the question that the warning is about, as it was sent
 * @param versions of the question as it is now; the first that still has the doubtful value is changed
 * @returns undefined if none has it
 */
export function applySuggestion({ path, suggestion }: Warning, asked: unknown, versions: readonly unknown[]): unknown {
  const doubtful = JSON.stringify(getAt(asked, path))
  const now = versions.find((version) => JSON.stringify(getAt(version, path)) === doubtful)
  return now === undefined ? undefined : setAt(now, path, suggestion)
}
