import { useState } from 'preact/hooks'
import { listDrillDownUsers } from '../api/answers.js'
import type { DrillDown } from '../lib/answer-table.js'
import type { CsvRow } from '../lib/csv.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatNumber } from '../lib/format.js'
import { linkTo } from '../lib/navigation.js'
import { readAllPages } from '../lib/read-all-pages.js'
import { useLoaded } from '../lib/use-loaded.js'
import { CsvButton } from '../ui/csv-button.js'
import { Dialog } from '../ui/dialog.js'
import { Failure, Loading } from '../ui/notice.js'
import { Pagination } from '../ui/pagination.js'
import * as styles from './drill-down.module.css'
import type { OnDrillDown } from './number-button.js'

const LIMIT = 50
const FILE_LIMIT = 1000

interface UsersDialogProps {
  drillDown: DrillDown
  /** describes the number */
  title: string
  onClose: () => void
}

/** Opens a dialog with the users that a number counts: the click handler, and the dialog while it is open. */
export function useDrillDown() {
  const [opened, setOpened] = useState<Omit<UsersDialogProps, 'onClose'> | null>(null)
  const onDrillDown: OnDrillDown = (drillDown, title) => setOpened({ drillDown, title })
  return { onDrillDown, dialog: opened && <UsersDialog {...opened} onClose={() => setOpened(null)} /> }
}

/** Lists the users that a number of an answer counts. */
function UsersDialog({ drillDown, title, onClose }: UsersDialogProps) {
  const [page, setPage] = useState(1)
  const key = JSON.stringify([drillDown, page])
  const { value, error, isLoading, reload } = useLoaded(key, (signal) => {
    return listDrillDownUsers(drillDown, { page, limit: LIMIT }, signal)
  })
  return (
    <Dialog title={title} onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the users" />}
      {value && (
        <>
          <p role="status">
            {value.count === 1 ? '1 user' : `${formatNumber(value.count)} users`}
            {value.count === 0 && ': the events behind this number are of nobody who is known.'}
          </p>
          <ul class={styles.users} aria-label="Users" aria-busy={isLoading}>
            {value.users.map((user) => (
              <li key={user}>
                <a href={linkTo(['users', user])}>
                  <bdi>{escapeInvisible(user)}</bdi>
                </a>
              </li>
            ))}
          </ul>
          {value.count > 0 && <CsvButton name={title} rows={() => buildCsv(drillDown)} label="CSV of users" />}
          <Pagination
            page={page}
            last={Math.ceil(value.count / LIMIT)}
            hasMore={value.hasMore}
            isLoading={isLoading}
            onChange={setPage}
          />
        </>
      )}
    </Dialog>
  )
}

async function buildCsv(drillDown: DrillDown): Promise<CsvRow[]> {
  const users = await readAllPages(async (page) => {
    const { users, hasMore } = await listDrillDownUsers(drillDown, { page, limit: FILE_LIMIT })
    return { rows: users, hasMore }
  })
  return [['User'], ...users.map((user) => [user])]
}
