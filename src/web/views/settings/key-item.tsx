import type { ListedKey } from '../../../contract/key-schemas.js'
import { formatDaysAgo, formatDuration, formatNumber, formatTime } from '../../lib/format.js'
import { Button } from '../../ui/button.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import * as textStyles from '../../ui/text.module.css'
import { nameKey } from './key-text.js'
import * as styles from './keys.module.css'

export type KeyAction = 'edit' | 'rotate' | 'revoke'

const ACTIONS: Record<KeyAction, string> = { edit: 'Edit', rotate: 'Rotate', revoke: 'Revoke' }

interface KeyItemProps {
  item: ListedKey
  onAct: (action: KeyAction) => void
}

/** A key with its limits and use, and buttons to change it. */
export function KeyItem({ item, onAct }: KeyItemProps) {
  const { id, label, origins, events_only, source, state, revoked_at, current } = item
  const limits = [...(events_only ? ['Sends events only'] : []), ...(origins.length > 0 ? [origins.join(', ')] : [])]
  const mayChange = source === 'store' && state !== 'revoked'
  return (
    <li>
      <div class={styles.about}>
        <p>
          <b>
            <bdi>{nameKey(item)}</bdi>
          </b>{' '}
          {label !== '' && <code>{id}</code>}
          {current && <span class={styles.current}>You are signed in with it</span>}
        </p>
        {limits.length > 0 && <p class={textStyles.hint}>{limits.join(' · ')}</p>}
        {state === 'ending' && revoked_at !== null && (
          <p class={styles.ending}>
            Replaced: works for another {formatDuration(Math.max(1000, revoked_at - Date.now()))}, until{' '}
            {formatTime(revoked_at)}.
          </p>
        )}
        <p class={textStyles.hint}>{describeUse(item)}</p>
        {source === 'environment' && (
          <p class={textStyles.hint}>
            Set in the environment of the service. Change it there, and restart the service.
          </p>
        )}
      </div>
      {mayChange && (
        <div class={pageHeaderStyles.actions}>
          {(Object.keys(ACTIONS) as KeyAction[])
            .filter((action) => action !== 'rotate' || state === 'valid')
            .map((action) => (
              <Button
                key={action}
                look={action === 'revoke' ? 'danger' : undefined}
                aria-label={`${ACTIONS[action]} ${nameKey(item)}…`}
                onClick={() => onAct(action)}
              >
                {ACTIONS[action]}…
              </Button>
            ))}
        </div>
      )}
    </li>
  )
}

/** When a key was created, used, refused and revoked, as one line. */
function describeUse({ created_at, last_used, refused, last_refused, state, revoked_at }: ListedKey): string {
  return [
    ...(created_at === null ? [] : [`Created ${formatTime(created_at)}`]),
    last_used === null ? 'Never used' : `Last used ${formatDaysAgo(last_used)}`,
    ...(refused > 0 && last_refused !== null
      ? [
          `${formatNumber(refused)} ${refused === 1 ? 'request' : 'requests'} refused, last ${formatDaysAgo(last_refused)}`,
        ]
      : []),
    ...(state === 'revoked' && revoked_at !== null ? [`Revoked ${formatTime(revoked_at)}`] : []),
  ].join(' · ')
}
