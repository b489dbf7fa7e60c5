import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { formatExactJson } from '../../contract/exact-json.js'
import { listDrillDownUsers } from '../api/answers.js'
import { readProfiles } from '../api/users.js'
import { useLoaded } from '../hooks/use-loaded.js'
import type { DrillDown } from '../lib/answer-table.js'
import type { CsvPart } from '../lib/csv.js'
import { findEmail, findName, labelPerson } from '../lib/display-name.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatNumber } from '../lib/format.js'
import { keepInEntry, readFromEntry } from '../lib/navigation.js'
import { readAllPages } from '../lib/read-all-pages.js'
import { linkTo } from '../lib/route.js'
import { CsvButton } from '../ui/csv-button.js'
import { Dialog } from '../ui/dialog.js'
import { Failure, Loading } from '../ui/notice.js'
import { Pagination } from '../ui/pagination.js'
import * as styles from './drill-down.module.css'
import { DrillDownContext } from './number-button.js'

const LIMIT = 50
const FILE_LIMIT = 1000

/**
 * Which users are listed, and for which answer. This is kept with the history entry, so that going back shows them
 * again.
 */
interface Opened {
  /** which of the answers of the view has the number */
  place: string
  drillDown: DrillDown
  /** describes the number */
  title: string
  page: number
}

const ENTRY = 'users'

/**
 * Makes the numbers inside clickable: a dialog lists the users behind a number.
 * @param place distinguishes the answers of a view
 */
export function DrillDownArea({ place, children }: { place: string; children: ComponentChildren }) {
  const [opened, setOpened] = useState(() => {
    const kept = readFromEntry(ENTRY) as Opened | undefined
    return kept?.place === place ? kept : null
  })
  const open = (next: Opened | null) => {
    keepInEntry(ENTRY, next ?? undefined)
    setOpened(next)
  }
  return (
    <DrillDownContext.Provider value={(drillDown, title) => open({ place, drillDown, title, page: 1 })}>
      {children}
      {opened && <UsersDialog {...opened} onTurn={(page) => open({ ...opened, page })} onClose={() => open(null)} />}
    </DrillDownContext.Provider>
  )
}

interface UsersDialogProps extends Omit<Opened, 'place'> {
  /** shows another page */
  onTurn: (page: number) => void
  onClose: () => void
}

/** Lists the users behind a number of an answer, with their names. */
function UsersDialog({ drillDown, title, page, onTurn, onClose }: UsersDialogProps) {
  const key = formatExactJson([drillDown, page])
  const { value, error, isLoading, reload } = useLoaded(key, (signal) => {
    return listDrillDownUsers(drillDown, { page, limit: LIMIT }, signal)
  })
  // The ids are shown until the names have loaded.
  const profiles = useLoaded(value && JSON.stringify(value.users), (signal) => {
    return readProfiles(value?.users ?? [], signal)
  })
  return (
    <Dialog title={title} onClose={onClose}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the users" />}
      {value && (
        <>
          <p role="status">
            {value.count === 1 ? '1 user' : `${formatNumber(value.count)} users`}
            {value.count === 0 && ': these events belong to no known user.'}
          </p>
          <ul class={styles.users} aria-label="Users" aria-busy={isLoading}>
            {value.users.map((user) => (
              <li key={user}>
                <a href={linkTo(['users', user])}>
                  <bdi>{escapeInvisible(user)}</bdi>
                </a>
                <small>
                  <bdi>{labelPerson(profiles.value?.get(user) ?? {})}</bdi>
                </small>
              </li>
            ))}
          </ul>
          <footer>
            {value.count > 0 && <CsvButton name={title} rows={() => buildCsv(drillDown)} label="CSV of users" />}
            <Pagination
              page={page}
              last={Math.ceil(value.count / LIMIT)}
              hasMore={value.hasMore}
              isLoading={isLoading}
              onChange={onTurn}
            />
          </footer>
        </>
      )}
    </Dialog>
  )
}

async function buildCsv(drillDown: DrillDown): Promise<CsvPart> {
  const { rows: users, isCut } = await readAllPages(
    (page) => listDrillDownUsers(drillDown, { page, limit: FILE_LIMIT }),
    ({ users }) => users,
    (user) => user,
  )
  const profiles = await readProfiles(users)
  const rows = users.map((user) => {
    const properties = profiles.get(user) ?? {}
    return [user, findName(properties), findEmail(properties)]
  })
  return { rows: [['User', 'Name', 'Email'], ...rows], isCut }
}
