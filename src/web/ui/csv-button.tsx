import { useState } from 'preact/hooks'
import { type CsvPart, type CsvRow, formatCsv } from '../lib/csv.js'
import { formatNumber } from '../lib/format.js'
import { Button } from './button.js'

interface CsvButtonProps {
  /** file name without extension */
  name: string
  /** the heading and the rows; may have to be loaded first */
  rows: () => CsvRow[] | CsvPart | Promise<CsvRow[] | CsvPart>
  /** text of the button */
  label?: string
  /** whether it looks like a link */
  isLink?: boolean
  /** label for screen readers if `label` is too short */
  about?: string
  /** whether the rows are those of an earlier question, which must not be saved as the answer to the current one */
  isOld?: boolean
}

const LOADING = 'Loading…'

/** Downloads a table as a CSV file. */
export function CsvButton({ name, rows, label = 'Download CSV', isLink, about, isOld = false }: CsvButtonProps) {
  const [state, setState] = useState('')
  const save = async () => {
    setState(LOADING)
    try {
      const read = await rows()
      const part = Array.isArray(read) ? { rows: read, isCut: false } : read
      saveCsv(name, part.rows)
      setState(part.isCut ? `Only the first ${formatNumber(part.rows.length - 1)} rows` : '')
    } catch {
      setState('Download failed')
    }
  }
  return (
    <Button look={isLink ? 'link' : undefined} disabled={state === LOADING || isOld} aria-label={about} onClick={save}>
      {label}
      <span role="status">{state}</span>
    </Button>
  )
}

function saveCsv(name: string, rows: CsvRow[]): void {
  // The byte order mark tells Excel that the file is UTF-8.
  const url = URL.createObjectURL(new Blob(['\uFEFF', formatCsv(rows)], { type: 'text/csv;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `${name}.csv`
  link.click()
  URL.revokeObjectURL(url)
}
