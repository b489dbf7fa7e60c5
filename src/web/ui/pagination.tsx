import { formatNumber } from '../lib/format.js'
import { Button } from './button.js'
import * as pageHeaderStyles from './page-header.module.css'
import * as textStyles from './text.module.css'

interface PaginationProps {
  page: number
  /** number of the last page, if known */
  last?: number
  hasMore: boolean
  isLoading: boolean
  onChange: (page: number) => void
}

/** Navigation between numbered pages; nothing if there is only one. */
export function Pagination({ page, last, hasMore, isLoading, onChange }: PaginationProps) {
  if (page === 1 && !hasMore) return null
  return (
    <nav class={pageHeaderStyles.actions} aria-label="Pages">
      <Button disabled={page === 1 || isLoading} onClick={() => onChange(page - 1)}>
        Previous
      </Button>
      <span class={textStyles.hint}>
        Page {formatNumber(page)}
        {last !== undefined && ` of ${formatNumber(last)}`}
      </span>
      <Button disabled={!hasMore || isLoading} onClick={() => onChange(page + 1)}>
        Next
      </Button>
    </nav>
  )
}
