import { useState } from 'preact/hooks'
import { listUsers } from '../../api/users.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { Failure, Loading } from '../../ui/notice.js'
import { Popover } from '../../ui/popover.js'
import { Checkbox } from '../../ui/text-field.js'
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
    <Popover summary="Columns" onToggle={setOpen}>
      <fieldset class={styles.columns}>
        <legend>Properties to show</legend>
        {sample.error && <Failure error={sample.error} onRetry={sample.reload} />}
        {sample.isLoading && names.length === 0 && <Loading what="the properties of users" />}
        {sample.value && names.length === 0 && <p>No user has properties.</p>}
        {names.map((name) => (
          <Checkbox
            key={name}
            label={<bdi>{escapeInvisible(name)}</bdi>}
            checked={chosen.includes(name)}
            onChange={(checked) => onChange(checked ? [...chosen, name] : chosen.filter((one) => one !== name))}
          />
        ))}
      </fieldset>
    </Popover>
  )
}
