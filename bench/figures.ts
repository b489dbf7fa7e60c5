/** Target of a result: for its ratio to the limit, or for its value. */
interface Goal {
  of: 'ratio' | 'value'
  target: number
  stretch: number
  /** an allowance that is added to the ratio times the limit, in the figure's unit; default: 0 */
  plus?: number
}

export interface FigureOptions {
  unit: 'req/s' | 'events/s' | 'ops/s' | 'ms' | 'µs' | 'MB/s' | 'MiB'
  /** name of the limit; absent if there is none */
  over?: string
  goal?: Goal | undefined
}

/** One line of the table: for each round, a value and its limit in the same round. */
export interface Figure extends FigureOptions {
  benchmark: string
  name: string
  values: number[]
  limits: number[]
}

export interface Spread {
  median: number
  min: number
  max: number
}

/** The results of a run, in the order of their first appearance. */
export class Figures {
  all: Figure[] = []
  readonly notes: string[] = []

  /** @returns a function that adds the result of a round */
  open(benchmark: string, name: string, options: FigureOptions): (value: number, limit?: number) => void {
    const figure: Figure = { benchmark, name, ...options, values: [], limits: [] }
    this.all.push(figure)
    return (value, limit) => {
      figure.values.push(value)
      if (limit !== undefined) figure.limits.push(limit)
    }
  }

  /** Removes the figures that a failed benchmark did not measure. */
  dropEmpty(): void {
    this.all = this.all.filter(({ values }) => values.length > 0)
  }
}

export function spreadOf(values: number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  const at = (i: number) => sorted[i] ?? Number.NaN
  const median = Number.isInteger(middle) ? (at(middle - 1) + at(middle)) / 2 : at(Math.floor(middle))
  return { median, min: at(0), max: at(sorted.length - 1) }
}

/**
 * The ratio of each round, whose sides were measured on the same machine at nearly the same time; null without a limit.
 * @param plus subtracted from the values
 */
export function ratioOf({ values, limits }: Figure, plus = 0): Spread | null {
  if (limits.length === 0) return null
  return spreadOf(values.map((value, i) => (value - plus) / (limits[i] ?? Number.NaN)))
}

/** Times and memory are better when smaller. */
export function isSmallerBetter({ unit }: Figure): boolean {
  return unit === 'ms' || unit === 'µs' || unit === 'MiB'
}

/** null without a goal */
export function verdictOn(figure: Figure): 'stretch' | 'met' | 'missed' | null {
  const { goal } = figure
  if (!goal) return null
  const { median } = (goal.of === 'ratio' ? ratioOf(figure, goal.plus) : null) ?? spreadOf(figure.values)
  const reaches = (aim: number) => (isSmallerBetter(figure) ? median <= aim : median >= aim)
  return reaches(goal.stretch) ? 'stretch' : reaches(goal.target) ? 'met' : 'missed'
}
