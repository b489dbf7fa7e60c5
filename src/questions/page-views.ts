import { PAGE_VIEWS } from '../contract/page-fields.js'
import type { Statement } from './statement.js'

/** SQL for whether a row with the column `event` is a page view. */
export function isPageView(statement: Statement): string {
  return `event IN ${statement.texts(PAGE_VIEWS)}`
}
