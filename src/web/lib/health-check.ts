import type { Sample } from './prometheus.js'

/** What the service measured at one time. */
export interface Reading {
  /** epoch ms */
  at: number
  samples: Sample[]
  /** why the service is not ready; null if it is */
  notReady: string | null
}

/** From nothing to do, by something to look at, to something that loses or refuses data if nobody acts. */
export type Level = 'good' | 'watch' | 'bad'

/** One part of the service, in words. */
export interface Check {
  title: string
  level: Level
  /** one sentence */
  verdict: string
  /** what to do about it; null if there is nothing */
  advice: string | null
  facts: [name: string, value: string][]
  /** what this part is */
  about: string
  /** a view that has more */
  link?: { text: string; to: string[] }
}
