/** Number of bootstrap samples for the spread of a fit. */
const DRAWS = 2_000
/** The part of the samples outside the spread on either side. */
const OUTSIDE = 0.05

/** The throughput of some machines, relative to one machine in the same round. */
export interface Point {
  machines: number
  ratio: number
}

/** n machines achieve n / (1 + σ (n - 1) + κ n (n - 1)) times as much as one: Gunther's Universal Scalability Law. */
export interface Fit {
  /** the serial part of the work (contention) */
  sigma: number
  /** the cost of each pair of machines (coherency) */
  kappa: number
}

export interface FitSpread extends Fit {
  /** 5th and 95th percentile */
  sigmas: [low: number, high: number]
  kappas: [low: number, high: number]
}

/**
 * Fits n / ratio - 1 = σ (n - 1) + κ n (n - 1) by least squares. Each point is weighted by its ratio, because its error
 * is proportional to it.
 */
export function fit(points: Point[]): Fit {
  let [aa, ab, bb, ay, by] = [0, 0, 0, 0, 0]
  for (const { machines: n, ratio } of points) {
    const weight = (ratio / n) ** 2
    const [a, b, y] = [n - 1, n * (n - 1), n / ratio - 1]
    aa += weight * a * a
    ab += weight * a * b
    bb += weight * b * b
    ay += weight * a * y
    by += weight * b * y
  }
  const determinant = aa * bb - ab * ab
  return { sigma: (ay * bb - by * ab) / determinant, kappa: (by * aa - ay * ab) / determinant }
}

/** Fits all rounds, and estimates the spread by bootstrapping: fits of rounds that are drawn from them at random. */
export function fitRounds(rounds: Point[][]): FitSpread {
  const random = randomFrom(1)
  const drawn = Array.from({ length: DRAWS }, () =>
    fit(rounds.flatMap(() => rounds[Math.floor(random() * rounds.length)] ?? [])),
  )
  const between = (of: keyof Fit): [number, number] => {
    const sorted = drawn.map((one) => one[of]).sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN
    return [at(OUTSIDE), at(1 - OUTSIDE)]
  }
  return { ...fit(rounds.flat()), sigmas: between('sigma'), kappas: between('kappa') }
}

/** The same numbers from 0 to 1 in every run (a linear congruential generator: Numerical Recipes, 3rd edition, 7.1.5). */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}
