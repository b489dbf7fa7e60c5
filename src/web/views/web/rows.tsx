import type { ComponentChildren } from 'preact'
import { NumberButton } from '../../charts/number-button.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import type { DrillDown } from '../../lib/answer-table.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatNumber, formatShare } from '../../lib/format.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './rows.module.css'

/** A value of a panel, such as a country, and how many visitors or visits have it. */
export interface Row {
  label: string
  value: number
  /** share of all visits, 0 to 1; undefined if it would be meaningless */
  share?: number | undefined
  drillDown: DrillDown | undefined
  onFilter: () => void
}

interface RowsProps {
  /** the headings of the labels and of the numbers */
  columns: [label: string, value: string]
  rows: readonly Row[]
}

/**
 * Values in descending order, each with a bar. A click on a label filters by it; a click on a number lists its users.
 */
export function Rows({ columns: [one, what], rows }: RowsProps) {
  const keys = useRowKeys(rows.map(({ label }) => label))
  const max = Math.max(1, ...rows.map(({ value }) => value))
  if (rows.length === 0) return <p class={textStyles.hint}>Nothing in this period.</p>
  const hasShares = rows.some(({ share }) => share !== undefined)
  return (
    <table class={styles.rows}>
      <thead>
        <tr>
          <th scope="col">{one}</th>
          <th scope="col">{what}</th>
          {hasShares && <th scope="col">Rate</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ label, value, share, drillDown, onFilter }, i) => (
          <tr key={keys[i]}>
            <td>
              <Bar share={value / max}>
                <button
                  type="button"
                  class={styles.label}
                  title={`Filter by ${escapeInvisible(label)}`}
                  onClick={onFilter}
                >
                  <bdi>{escapeInvisible(label)}</bdi>
                </button>
              </Bar>
            </td>
            <td>
              <NumberButton
                text={formatNumber(value)}
                title={`${what}, ${escapeInvisible(label)}`}
                drillDown={drillDown}
              />
            </td>
            {hasShares && <td>{share === undefined ? '–' : formatShare(share)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class={styles.bar} style={{ '--share': `${100 * share}%` }}>
      {children}
    </span>
  )
}
