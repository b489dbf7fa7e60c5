import type { ListedUser } from '../../api/users.js'
import { labelPerson } from '../../lib/display-name.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { readMembers } from '../../lib/json-text.js'
import { linkTo } from '../../lib/route.js'
import { Ago } from '../../ui/ago.js'
import * as cardStyles from '../../ui/card.module.css'
import { Scrollable } from '../../ui/scrollable.js'
import * as tableStyles from '../../ui/table.module.css'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './user-list.module.css'

interface UserTableProps {
  users: ListedUser[]
  /** names of properties */
  columns: string[]
}

/** Users with the properties that the reader chose. */
export function UserTable({ users, columns }: UserTableProps) {
  return (
    <Scrollable label="List of users" class={`${cardStyles.card} ${tableStyles.scroll}`}>
      <table class={`${tableStyles.list} ${styles.table}`}>
        <caption class={textStyles.hidden}>Users</caption>
        <thead>
          <tr>
            <th scope="col">User</th>
            {columns.map((name) => (
              <th key={name} scope="col">
                <bdi>{escapeInvisible(name)}</bdi>
              </th>
            ))}
            <th scope="col">Last seen</th>
            <th scope="col" class={styles.created}>
              Created
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <Row key={user.distinct_id} user={user} columns={columns} />
          ))}
        </tbody>
      </table>
    </Scrollable>
  )
}

function Row({ user, columns }: { user: ListedUser; columns: string[] }) {
  const { distinct_id, properties, created_at, last_seen } = user
  const called = labelPerson(properties)
  return (
    <tr>
      <td>
        <a href={linkTo(['users', distinct_id])}>
          <bdi>{escapeInvisible(distinct_id)}</bdi>
        </a>
        {called !== '' && (
          <small>
            <bdi>{called}</bdi>
          </small>
        )}
      </td>
      {columns.map((name) => (
        <td key={name}>
          <Value value={readCell(user, name)} />
        </td>
      ))}
      <td>{last_seen === null ? <span class={textStyles.hint}>No events</span> : <Ago instant={last_seen} />}</td>
      <td class={styles.created}>
        {created_at === null ? <span class={textStyles.hint}>No profile</span> : <Ago instant={created_at} />}
      </td>
    </tr>
  )
}

function Value({ value }: { value: string | number | null }) {
  return value === null ? <span class={textStyles.hint}>–</span> : <bdi>{escapeInvisible(String(value))}</bdi>
}

/** A property of a user for a table: a text, a number that is shown exactly, or other values as JSON; null if not set. */
export function readCell({ text }: Pick<ListedUser, 'text'>, name: string): string | number | null {
  const token = readMembers(text).get(name)
  if (token === undefined || token === 'null') return null
  if (token.startsWith('"')) return JSON.parse(token)
  const number = Number(token)
  return String(number) === token ? number : token
}
