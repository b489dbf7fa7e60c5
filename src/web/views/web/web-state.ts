import type { SessionsDefinition } from '../../../contract/questions.js'
import { type BoardControls, formatControls, parseControls, readControls } from '../../lib/board-controls.js'
import { parseJson } from '../../lib/json-text.js'
import { NO_BOTS } from '../../lib/page-views.js'
import { chooseSessions, getProjectSettings } from '../../lib/project-settings.js'
import { linkTo } from '../../lib/route.js'
import { MAX_GOALS, PANELS } from './web-questions.js'

export const NUMBERS = ['visitors', 'visits', 'views', 'pages', 'bounces', 'seconds'] as const
/** One of the numbers at the top. */
export type NumberName = (typeof NUMBERS)[number]

/** The state of the view, which is kept in the URL. */
export interface WebState {
  controls: BoardControls
  /** the number that the chart shows */
  number: NumberName
  /** the selected tab of each panel, by their ids */
  tabs: Record<string, string>
  /** names of events; null for the usual ones */
  goals: string[] | null
  /** the definition of a visit; default: the project's */
  sessions: SessionsDefinition
}

const usual = () => parseControls({ where: NO_BOTS })

/** Reads the state from the URL. */
export function readState(query: URLSearchParams): WebState {
  const goals = query.get('goals')
  return {
    controls: readControls(query, usual()),
    number: NUMBERS.find((one) => one === query.get('number')) ?? 'visitors',
    tabs: Object.fromEntries(PANELS.map(({ id }) => [id, query.get(id) ?? ''])),
    goals: goals === null ? null : parseGoals(goals),
    sessions: chooseSessions(query.get('visits')),
  }
}

/** The link to a state, the inverse of `readState`. */
export function linkToState({ controls, number, tabs, goals, sessions }: WebState): string {
  return linkTo(['web'], {
    ...formatControls(controls, usual()),
    number: number === 'visitors' ? '' : number,
    ...tabs,
    goals: goals === null ? '' : JSON.stringify(goals),
    visits: (sessions === 'id') === (getProjectSettings().sessions === 'id') ? '' : sessions === 'id' ? 'id' : 'gap',
  })
}

function parseGoals(text: string): string[] | null {
  const names = parseJson(text)
  if (!Array.isArray(names)) return null
  return names.filter((name) => typeof name === 'string' && name !== '').slice(0, MAX_GOALS)
}
