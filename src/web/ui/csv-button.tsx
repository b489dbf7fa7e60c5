import { useState } from 'preact/hooks'
import { type CsvRow, formatCsv } from '../lib/csv.js'
import * as styles from './csv-button.module.css'

interface CsvButtonProps {
  /** of the file, without its ending */
  name: string
  /** the head, and what is below it; it may have to be read first */
  rows: () => CsvRow[] | Promise<CsvRow[]>
  /** on the button */
  label?: string
  /** what screen readers say, where the label says too little */
  about?: string
}

/** Saves a table as a file. */
export function CsvButton({ name, rows, label = 'Download CSV', about }: CsvButtonProps) {
  const [state, setState] = useState<'' | 'Reading…' | 'Not saved'>('')
  const save = async () => {
    setState('Reading…')
    try {
      saveCsv(name, await rows())
      setState('')
    } catch {
      setState('Not saved')
    }
  }
  return (
    <button type="button" class={styles.csv} disabled={state === 'Reading…'} aria-label={about} onClick={save}>
      {label}
      <span role="status">{state}</span>
    </button>
  )
}

function saveCsv(name: string, rows: CsvRow[]): void {
  // The mark says to Excel that it is UTF-8.
  const url = URL.createObjectURL(new Blob(['\uFEFF', formatCsv(rows)], { type: 'text/csv;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `${name}.csv`
  link.click()
  URL.revokeObjectURL(url)
}
