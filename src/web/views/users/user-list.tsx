import { useEffect, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import type { Filter } from '../../../contract/filters.js'
import { MAX_PAGE } from '../../../contract/limits.js'
import { type ListedUser, listUsers } from '../../api/users.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import type { CsvPart, CsvRow } from '../../lib/csv.js'
import { findEmail, findName } from '../../lib/display-name.js'
import { dropIncomplete } from '../../lib/filters.js'
import { navigate } from '../../lib/navigation.js'
import { CsvButton } from '../../ui/csv-button.js'
import { Empty, Failure, Loading, Warnings } from '../../ui/notice.js'
import { Pagination } from '../../ui/pagination.js'
import { SearchField } from '../../ui/search-field.js'
import * as tableStyles from '../../ui/table.module.css'
import { type ListQuery, linkToList, parseListQuery } from './list-query.js'
import { UserColumns } from './user-columns.js'
import { UserFilter } from './user-filter.js'
import * as styles from './user-list.module.css'
import { readCell, UserTable } from './user-table.js'

const LIMIT = 50

/** The users with events or a profile, all or those that match a search and a filter. @param query of the route */
export function UserList({ query }: { query: URLSearchParams }) {
  const shown = parseListQuery(query)
  const { search, columns, page } = shown
  const show = (next: Partial<ListQuery>) => navigate(linkToList({ ...shown, page: 1, ...next }), 'replace')
  const [draft, setDraft] = useFilterDraft(shown.filter, (filter) => show({ filter }))
  const key = formatExactJson([search, shown.filter, page])
  const { value, error, isLoading, reload } = useLoaded(key, (signal) => {
    return listUsers({ search, filter: shown.filter, page, limit: LIMIT }, signal)
  })
  const users = value?.users ?? []
  return (
    <>
      <h1>Users</h1>
      <div class={tableStyles.tableBar}>
        <SearchField
          label="Search users"
          placeholder="Name, email, id or alias"
          value={search}
          onChange={(text) => show({ search: text })}
        />
        <UserColumns
          chosen={columns}
          known={users.flatMap(({ properties }) => Object.keys(properties))}
          onChange={(columns) => show({ columns, page })}
        />
        {users.length > 0 && <CsvButton name="users" rows={() => buildCsv(shown)} />}
      </div>
      <div class={styles.filter}>
        <UserFilter value={draft} onChange={setDraft} />
      </div>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="users" />}
      {value && (
        <div aria-busy={isLoading}>
          <Warnings warnings={value.warnings} />
          {users.length > 0 ? <UserTable users={users} columns={columns} /> : <NoUsers query={shown} />}
          <Pagination
            page={page}
            hasMore={value.hasMore}
            isLoading={isLoading}
            onChange={(next) => show({ page: next })}
          />
        </div>
      )}
    </>
  )
}

/** The filter while it is being edited. Only complete conditions are in the URL, and therefore in links. */
function useFilterDraft(shown: Filter | null, show: (filter: Filter | null) => void) {
  const [draft, setDraft] = useState(shown)
  const key = formatExactJson(shown)
  // The filter was changed elsewhere, for example by a link.
  useEffect(() => {
    setDraft((before) =>
      formatExactJson(dropIncomplete(before)) === key ? before : (JSON.parse(key) as Filter | null),
    )
  }, [key])
  const change = (next: Filter | null) => {
    setDraft(next)
    const complete = dropIncomplete(next)
    if (formatExactJson(complete) !== key) show(complete)
  }
  return [draft, change] as const
}

function NoUsers({ query: { search, filter, page } }: { query: ListQuery }) {
  if (page > 1) return <Empty title="This page is empty">Go back one page.</Empty>
  if (search === '' && filter === null) {
    return <Empty title="No users yet">Everyone who sends an event or gets a profile appears here.</Empty>
  }
  const hint = search === '' ? 'Change or remove the filter.' : 'Try part of an id, a name or an email address.'
  return <Empty title="No users match">{hint}</Empty>
}

/** All users of the list, as CSV rows: in one page, because users change places between two reads. */
async function buildCsv({ search, filter, columns }: ListQuery): Promise<CsvPart> {
  const { users, hasMore } = await listUsers({ search, filter, limit: MAX_PAGE })
  const head = ['User', 'Name', 'Email', ...columns, 'Last seen', 'Created', 'Updated']
  return { rows: [head, ...users.map((user) => toCsvRow(user, columns))], isCut: hasMore }
}

function toCsvRow(user: ListedUser, columns: string[]): CsvRow {
  const { distinct_id, properties, created_at, updated_at, last_seen } = user
  const times = [last_seen, created_at, updated_at].map((instant) =>
    instant === null ? null : new Date(instant).toISOString(),
  )
  const values = columns.map((name) => readCell(user, name))
  return [distinct_id, findName(properties), findEmail(properties), ...values, ...times]
}
