import { useState } from 'preact/hooks'
import { canRemove, type FoundUser, removeAlias } from '../../api/users.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { ActionDialog } from '../../ui/dialog.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './aliases.module.css'

interface AliasesProps {
  user: FoundUser
  /** an additional hint, or empty */
  hint: string
  /** whether aliases can be removed, which needs a secret key */
  mayRemove: boolean
  onRemoved: () => void
}

/** The aliases of a user, with buttons to remove them. */
export function Aliases({ user: { distinctId, aliases, hasMoreAliases }, hint, mayRemove, onRemoved }: AliasesProps) {
  const [aliasToRemove, setAliasToRemove] = useState<string | null>(null)
  if (aliases.length === 0) return null
  return (
    <section class={cardStyles.card} aria-label="Other names">
      <h2>Other names</h2>
      <ul class={styles.names}>
        {aliases.map((alias) => (
          <li key={alias}>
            <bdi>{escapeInvisible(alias)}</bdi>{' '}
            {mayRemove && canRemove(alias) && (
              <Button
                look="link"
                aria-label={`Remove ${escapeInvisible(alias)}…`}
                onClick={() => setAliasToRemove(alias)}
              >
                Remove…
              </Button>
            )}
          </li>
        ))}
      </ul>
      {hasMoreAliases && <p class={textStyles.hint}>Only the first 1,000 are shown.</p>}
      {hint !== '' && <p class={textStyles.hint}>{hint}</p>}
      {aliasToRemove !== null && (
        <ActionDialog
          title="Remove this name?"
          action="Remove name"
          onConfirm={async () => {
            await removeAlias(distinctId, aliasToRemove)
            onRemoved()
          }}
          onClose={() => setAliasToRemove(null)}
        >
          <p>
            <b>
              <bdi>{escapeInvisible(aliasToRemove)}</bdi>
            </b>{' '}
            will become a separate user again, no longer an alias of{' '}
            <b>
              <bdi>{escapeInvisible(distinctId)}</bdi>
            </b>
            . It gets back its former profile and the events and sessions sent under its name. Later changes of the
            profile stay with this user. Nothing is deleted.
          </p>
        </ActionDialog>
      )}
    </section>
  )
}
