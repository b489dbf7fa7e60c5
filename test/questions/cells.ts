import type { answerOf } from './reference/answer.js'
import type { Answerable } from './reference/question.js'

type Answer = ReturnType<typeof answerOf>
// biome-ignore lint/suspicious/noExplicitAny: each kind has results of its own
type Results = any

/** All cells of an answer, in the form of a question about the users of a cell. */
export function cellsOf({ kind }: Answerable, answer: Answer): object[] {
  const results: Results = answer.results
  switch (kind) {
    case 'series':
      return results.flatMap(({ series, breakdown, points }: Results) => [
        { series, breakdown },
        ...points.map(({ at }: Results) => ({ series, breakdown, at })),
      ])
    case 'funnel':
      return results.flatMap(({ breakdown, steps }: Results) =>
        steps.flatMap((_: unknown, index: number) => [
          { step: index + 1, breakdown },
          ...(index > 0 ? [{ step: index + 1, breakdown, dropped: true }] : []),
        ]),
      )
    case 'retention':
      return results.flatMap(({ cohort, cells }: Results) => [
        { cohort },
        ...cells.map(({ interval }: Results) => ({ cohort, interval })),
      ])
    case 'paths':
      return [...results.nodes, ...results.links].map(({ users, ...cell }) => cell)
  }
}
