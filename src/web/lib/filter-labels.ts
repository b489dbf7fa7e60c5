import { type Comparison, type Filter, OPERATORS } from '../../contract/filters.js'
import { labelEvents } from './answer-labels.js'
import { escapeInvisible } from './escape-invisible.js'
import { labelBreakdown, labelField } from './fields.js'
import { OPERATOR_LABELS } from './filters.js'

/** Describes a filter, such as `country is AT or DE, and plan is set`. */
export function labelFilter(filter: Filter): string {
  return escapeInvisible(labelPart(filter))
}

function labelPart(filter: Filter): string {
  if (filter[0] === 'not') return `not (${labelPart(filter[1])})`
  if (filter[0] === 'and' || filter[0] === 'or') {
    const [joint, parts] = filter
    const texts = parts.map((part) =>
      part[0] === 'and' || part[0] === 'or' ? `(${labelPart(part)})` : labelPart(part),
    )
    return texts.join(`, ${joint} `)
  }
  if (filter[0] === 'session_has') {
    const { event, where } = filter[1]
    return `session has ${labelEvents(event)}${where ? ` (${labelPart(where)})` : ''}`
  }
  const [operator, field, operand] = filter as Comparison
  const name = `${labelField(field)} ${OPERATOR_LABELS[operator]}`
  if (OPERATORS[operator] === 'nothing') return name
  const values: unknown[] = Array.isArray(operand) ? operand : [operand]
  return `${name} ${values.map((value) => labelBreakdown([value])).join(' or ')}`
}
