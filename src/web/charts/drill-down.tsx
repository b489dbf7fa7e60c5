import { useState } from 'preact/hooks'
import { usersBehind } from '../api/answers.js'
import type { Behind } from '../lib/answer-table.js'
import type { CsvRow } from '../lib/csv.js'
import { visible } from '../lib/escape-invisible.js'
import { numberText } from '../lib/format.js'
import { linkTo } from '../lib/navigation.js'
import { allPages } from '../lib/read-all-pages.js'
import { useLoaded } from '../lib/use-loaded.js'
import { CsvButton } from '../ui/csv-button.js'
import { Dialog } from '../ui/dialog.js'
import { Failure, Loading } from '../ui/notice.js'
import { Pages } from '../ui/pagination.js'
import type { OnNumber } from './number-button.js'

const LIMIT = 50
const FILE_LIMIT = 1000

interface UsersBehindProps {
  behind: Behind
  /** what the number is of */
  title: string
  onClose: () => void
}

/** What shows who is behind a number once somebody wants to know: what to call then, and the dialog. */
export function useUsersBehind() {
  const [opened, setOpened] = useState<Omit<UsersBehindProps, 'onClose'> | null>(null)
  const onNumber: OnNumber = (behind, title) => setOpened({ behind, title })
  return { onNumber, dialog: opened && <UsersBehind {...opened} onClose={() => setOpened(null)} /> }
}

/** Who is behind a number of an answer. */
function UsersBehind({ behind, title, onClose }: UsersBehindProps) {
  const [page, setPage] = useState(1)
  const key = JSON.stringify([behind, page])
  const { value, error, isLoading, reload } = useLoaded(key, (signal) => {
    return usersBehind(behind, { page, limit: LIMIT }, signal)
  })
  return (
    <Dialog title={title} onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the users" />}
      {value && (
        <>
          <p role="status">
            {value.count === 1 ? '1 user' : `${numberText(value.count)} users`}
            {value.count === 0 && ': the events behind this number are of nobody who is known.'}
          </p>
          <ul class="users-behind" aria-label="Users" aria-busy={isLoading}>
            {value.users.map((user) => (
              <li key={user}>
                <a href={linkTo(['users', user])}>
                  <bdi>{visible(user)}</bdi>
                </a>
              </li>
            ))}
          </ul>
          {value.count > 0 && <CsvButton name={title} rows={() => fileOf(behind)} label="CSV of users" />}
          <Pages
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

async function fileOf(behind: Behind): Promise<CsvRow[]> {
  const users = await allPages(async (page) => {
    const { users, hasMore } = await usersBehind(behind, { page, limit: FILE_LIMIT })
    return { rows: users, hasMore }
  })
  return [['User'], ...users.map((user) => [user])]
}
