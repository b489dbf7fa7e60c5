import { useState } from 'preact/hooks'
import { listUsers } from '../../api/users.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { Popover } from '../../ui/popover.js'
import * as styles from './user-columns.module.css'

/** Number of users whose properties are offered, in addition to those shown. */
const SAMPLED = 50

interface UserColumnsProps {
  /** names of the properties shown */
  chosen: string[]
  /** names of other properties that can be shown */
  known: string[]
  onChange: (chosen: string[]) => void
}

/** Chooses which properties the list of users shows. */
export function UserColumns({ chosen, known, onChange }: UserColumnsProps) {
  const [isOpen, setOpen] = useState(false)
  const sample = useLoaded(isOpen ? 'sample' : null, async (signal) => {
    const { users } = await listUsers({ limit: SAMPLED }, signal)
    return users.flatMap(({ properties }) => Object.keys(properties))
  })
  const names = [...new Set([...chosen, ...known, ...(sample.value ?? [])])].sort()
  return (
    <Popover class={styles.columns} summary="Columns" onToggle={setOpen}>
      <fieldset>
        <legend>Properties to show</legend>
        {names.length === 0 && <p>No user has properties.</p>}
        {names.map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              onChange={({ currentTarget: { checked } }) => {
                onChange(checked ? [...chosen, name] : chosen.filter((one) => one !== name))
              }}
            />
            <bdi>{escapeInvisible(name)}</bdi>
          </label>
        ))}
      </fieldset>
    </Popover>
  )
}
