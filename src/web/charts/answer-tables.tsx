import { useRowKeys } from '../hooks/use-row-keys.js'
import type { AnswerTable, TableCell } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { Scrollable } from '../ui/scrollable.js'
import * as tableStyles from '../ui/table.module.css'
import * as textStyles from '../ui/text.module.css'
import * as styles from './answer-tables.module.css'
import { DrillDownContext, NumberButton } from './number-button.js'
import { useRowLimit } from './row-limit.js'

/** More rows would make the browser slow; the CSV file has all of them. */
const MAX_ROWS = 500

interface AnswerTablesProps {
  tables: AnswerTable[]
  /** whether the table is for screen readers only, next to a chart */
  isForReaders?: boolean
}

/** The numbers of an answer as tables. */
export function AnswerTables({ tables, isForReaders = false }: AnswerTablesProps) {
  return (
    <>
      {tables.map((table) => (
        <OneTable key={table.title} table={table} isForReaders={isForReaders} />
      ))}
    </>
  )
}

function OneTable({ table: { title, columns, rows }, isForReaders }: { table: AnswerTable; isForReaders: boolean }) {
  const isNumber = (column: number) => rows[0]?.[column]?.isNumber
  const { limit, more } = useRowLimit(rows.length)
  const hasOpen = rows.some((row) => row.some(({ isOpen }) => isOpen))
  const columnKeys = useRowKeys(columns)
  const rowKeys = useRowKeys(rows.map((row) => row.map(({ text }) => text).join('\n')))
  const content = (
    <>
      <table>
        <caption class={textStyles.hidden}>{title}</caption>
        <thead>
          <tr>
            {columns.map((column, i) => (
              <th key={columnKeys[i]} scope="col" class={isNumber(i) ? tableStyles.number : styles.text}>
                <bdi>{escapeInvisible(column)}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, isForReaders ? MAX_ROWS : Math.min(limit, MAX_ROWS)).map((row, i) => (
            <tr key={rowKeys[i]}>
              {row.map((cell, column) => (
                <Field key={columnKeys[column]} cell={cell} title={describeCell(row, columns, column)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {!isForReaders && more}
      {hasOpen && <p class={textStyles.hint}>* is not over yet and may still change.</p>}
      {rows.length > MAX_ROWS && !more && <p class={textStyles.hint}>The CSV file has all {rows.length} rows.</p>}
    </>
  )
  if (isForReaders) {
    return (
      <DrillDownContext.Provider value={null}>
        <div class={textStyles.hidden}>{content}</div>
      </DrillDownContext.Provider>
    )
  }
  return (
    <Scrollable label={`Table: ${title}`} class={`${tableStyles.scroll} ${styles.table}`}>
      {content}
    </Scrollable>
  )
}

function Field({ cell, title }: { cell: TableCell; title: string }) {
  return (
    <td class={cell.isNumber ? tableStyles.number : cell.isDate ? styles.date : styles.text}>
      {cell.isNumber ? (
        <NumberButton text={cell.text} title={title} drillDown={cell.drillDown} />
      ) : (
        <bdi>{cell.text}</bdi>
      )}
      {cell.isOpen && '*'}
    </td>
  )
}

/** Describes a number by its column and the text cells of its row. */
function describeCell(row: TableCell[], columns: string[], column: number): string {
  const words = row.filter(({ isNumber }) => !isNumber).map(({ text }) => text)
  return [escapeInvisible(columns[column] ?? ''), ...words].join(', ')
}
