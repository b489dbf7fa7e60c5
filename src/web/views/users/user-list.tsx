import type { User } from '../../../contract/responses.js'
import { hasEvents, readProfile, searchUsers } from '../../api/users.js'
import type { CsvRow } from '../../lib/csv.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatAgo, formatTime } from '../../lib/format.js'
import { linkTo, navigate } from '../../lib/navigation.js'
import { readAllPages } from '../../lib/read-all-pages.js'
import { useLoaded } from '../../lib/use-loaded.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { Pagination } from '../../ui/pagination.js'
import { SearchField } from '../../ui/search-field.js'
import * as tableStyles from '../../ui/table.module.css'
import * as textStyles from '../../ui/text.module.css'
import { findEmail, findName } from './display-name.js'
import * as styles from './user-list.module.css'

const LIMIT = 50
const FILE_LIMIT = 1000

/** Pages of users, or the results of a search. @param query of the route */
export function UserList({ query }: { query: URLSearchParams }) {
  const search = query.get('search') ?? ''
  const page = Math.max(1, Math.floor(Number(query.get('page'))) || 1)
  const { value, error, isLoading, reload } = useLoaded(JSON.stringify([search, page]), (signal) => {
    return load(search, page, signal)
  })
  const show = (search: string, page: number) => {
    navigate(linkTo(['users'], { search, page: page > 1 ? String(page) : '' }), 'replace')
  }
  return (
    <>
      <h1>Users</h1>
      <div class={tableStyles.tableBar}>
        <SearchField
          label="Search users"
          placeholder="Search by id, name, email, alias…"
          value={search}
          onChange={(text) => show(text, 1)}
        />
        {value && value.users.length > 0 && <CsvButton name="users" rows={() => buildCsv(search)} />}
      </div>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the users" />}
      {value && (
        <div aria-busy={isLoading}>
          {value.isOnlyKnownByEvents && <OnlyEvents userId={search} />}
          {value.users.length > 0 && <Table users={value.users} />}
          {value.users.length === 0 && !value.isOnlyKnownByEvents && <Nobody search={search} page={page} />}
          <Pagination
            page={page}
            hasMore={value.hasMore}
            isLoading={isLoading}
            onChange={(next) => show(search, next)}
          />
        </div>
      )}
    </>
  )
}

function Table({ users }: { users: User[] }) {
  return (
    <div class={`${cardStyles.card} ${tableStyles.scroll}`}>
      <table class={styles.table}>
        <caption class={textStyles.hidden}>Users</caption>
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col" class={styles.created}>
              Created
            </th>
            <th scope="col">Updated</th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <Row key={user.distinct_id} user={user} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ user: { distinct_id, properties, created_at, updated_at } }: { user: User }) {
  const called = [findName(properties), findEmail(properties)].filter((text) => text !== '')
  return (
    <tr>
      <td>
        <a href={linkTo(['users', distinct_id])}>
          <bdi>{escapeInvisible(distinct_id)}</bdi>
        </a>
        {called.length > 0 && (
          <small>
            <bdi>{called.map(escapeInvisible).join(' · ')}</bdi>
          </small>
        )}
      </td>
      <td class={styles.created}>
        <time dateTime={new Date(created_at).toISOString()} title={formatTime(created_at)}>
          {formatAgo(created_at)}
        </time>
      </td>
      <td>
        <time dateTime={new Date(updated_at).toISOString()} title={formatTime(updated_at)}>
          {formatAgo(updated_at)}
        </time>
      </td>
    </tr>
  )
}

function OnlyEvents({ userId }: { userId: string }) {
  return (
    <p class={cardStyles.card}>
      <a href={linkTo(['users', userId])}>
        <bdi>{escapeInvisible(userId)}</bdi>
      </a>{' '}
      <small>has events, but no profile.</small>
    </p>
  )
}

function Nobody({ search, page }: { search: string; page: number }) {
  if (page > 1) return <Empty title="This page is empty">Go back to the previous one.</Empty>
  if (search === '') {
    return (
      <Empty title="No profiles yet">
        <p>
          A user gets one with <code>identify</code>. Those who only sent events can be found by their exact id.
        </p>
      </Empty>
    )
  }
  return <Empty title="Nobody matches">Try a part of the id, of the name or of the email, or the exact id.</Empty>
}

/** All users that match a search, as CSV rows. */
async function buildCsv(search: string): Promise<CsvRow[]> {
  const users = await readAllPages(async (page) => {
    const { users, hasMore } = await searchUsers({ search, page, limit: FILE_LIMIT })
    return { rows: users, hasMore }
  })
  const rows = users.map(({ distinct_id, properties, created_at, updated_at }): CsvRow => {
    const times = [created_at, updated_at].map((instant) => new Date(instant).toISOString())
    return [distinct_id, findName(properties), findEmail(properties), ...times]
  })
  return [['User', 'Name', 'Email', 'Created', 'Updated'], ...rows]
}

async function load(search: string, page: number, signal: AbortSignal) {
  const [read, isKnown] = await Promise.all([
    searchUsers({ search, page, limit: LIMIT }, signal),
    search !== '' && page === 1 && hasEvents(search, signal),
  ])
  const isListed = read.users.some(({ distinct_id }) => distinct_id === search)
  // An alias has the profile of its user.
  const isOnlyKnownByEvents = isKnown && !isListed && (await readProfile(search, signal)) === null
  return { ...read, isOnlyKnownByEvents }
}
