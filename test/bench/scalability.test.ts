import t from 'tap'
import { fit, fitRounds, type Point } from '../../bench/scalability.js'

const COUNTS = [2, 3, 4, 6]

function ratio(n: number, sigma: number, kappa: number): number {
  return n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
}

function round(sigma: number, kappa: number, error = 1): Point[] {
  return COUNTS.map((machines) => ({ machines, ratio: ratio(machines, sigma, kappa) * error }))
}

t.test('a fit finds the coefficients that made the points', async (t) => {
  for (const [sigma, kappa] of [
    [0, 0],
    [0.05, 0],
    [0.02, 0.003],
    [-0.01, 0.001],
  ] as const) {
    const found = fit(round(sigma, kappa))
    t.ok(Math.abs(found.sigma - sigma) < 1e-9, `σ ${sigma}`)
    t.ok(Math.abs(found.kappa - kappa) < 1e-9, `κ ${kappa}`)
  }
})

t.test('the spread of a fit covers the differences between rounds, and is zero where they agree', async (t) => {
  const { sigmas, kappas } = fitRounds([round(0.02, 0.003), round(0.02, 0.003)])
  t.ok(sigmas[1] - sigmas[0] < 1e-9 && kappas[1] - kappas[0] < 1e-9)

  const apart = fitRounds([round(0.01, 0.001), round(0.02, 0.002), round(0.03, 0.003)])
  t.ok(apart.sigmas[0] < 0.016 && apart.sigmas[1] > 0.024, 'from the low rounds to the high ones')
  t.ok(apart.kappas[0] > 0.0005 && apart.kappas[1] < 0.0035, 'and not beyond')
  t.same(apart, fitRounds([round(0.01, 0.001), round(0.02, 0.002), round(0.03, 0.003)]), 'the same in each run')
})
