import { useState } from 'preact/hooks'
import type { AnyQuestion, Cell, UsersPage } from '../../contract/questions.js'
import { call } from '../api/call.js'
import { numberText } from '../lib/format.js'
import { linkTo } from '../lib/route.js'
import { useLoaded } from '../lib/use-loaded.js'
import { Dialog } from '../ui/dialog.js'
import { Failure, Loading } from '../ui/notice.js'

const LIMIT = 50

interface UsersBehindProps {
  /** the question of the answer, as it was answered */
  of: AnyQuestion
  cell: Cell
  /** what the number is of */
  title: string
  onClose: () => void
}

/** Who is behind a number of an answer. */
export function UsersBehind({ of, cell, title, onClose }: UsersBehindProps) {
  const [page, setPage] = useState(1)
  const key = JSON.stringify([of, cell, page])
  const { value, error, isLoading, reload } = useLoaded(key, async (signal) => {
    const question = { kind: 'users', of, cell, limit: LIMIT, page }
    return (await call<{ results: UsersPage }>('POST', '/public/query', question, signal)).results
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
                <a href={linkTo(['users', user])}>{user}</a>
              </li>
            ))}
          </ul>
          {(page > 1 || value.hasMore) && (
            <footer>
              <button type="button" disabled={page === 1 || isLoading} onClick={() => setPage(page - 1)}>
                Previous
              </button>
              <span class="hint">
                Page {page} of {numberText(Math.ceil(value.count / LIMIT))}
              </span>
              <button type="button" disabled={!value.hasMore || isLoading} onClick={() => setPage(page + 1)}>
                Next
              </button>
            </footer>
          )}
        </>
      )}
    </Dialog>
  )
}
