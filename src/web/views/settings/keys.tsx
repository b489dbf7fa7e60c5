import { useState } from 'preact/hooks'
import type { ListedKey } from '../../../contract/key-schemas.js'
import { listKeys } from '../../api/keys.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import * as textStyles from '../../ui/text.module.css'
import { CreateDialog, EditDialog, NewKeyDialog, RevokeDialog, RotateDialog, type ShownKey } from './key-dialogs.js'
import { type KeyAction, KeyItem } from './key-item.js'
import { KIND_HINTS, KIND_TITLES, KINDS } from './key-text.js'
import * as styles from './keys.module.css'

/** Lists the keys of the project, and changes them. @param onChanged called after each change */
export function Keys({ onChanged }: { onChanged: () => void }) {
  const { value: keys, error, isLoading, reload } = useLoaded('keys', listKeys)
  const [open, setOpen] = useState<{ action: 'create'; item: null } | { action: KeyAction; item: ListedKey } | null>(
    null,
  )
  const [shown, setShown] = useState<ShownKey | null>(null)
  const close = () => setOpen(null)
  const finish = (made: ShownKey | null) => {
    setShown(made)
    reload()
    onChanged()
  }
  const act = (action: KeyAction, item: ListedKey) => setOpen({ action, item })
  const dialog = { onDone: finish, onClose: close }
  const revoked = keys?.filter(({ state }) => state === 'revoked').reverse() ?? []
  return (
    <section aria-label="Keys" aria-busy={isLoading}>
      <div class={pageHeaderStyles.header}>
        <h2>Keys</h2>
        <Button look="primary" onClick={() => setOpen({ action: 'create', item: null })}>
          Create key…
        </Button>
      </div>
      {error && <Failure error={error} onRetry={reload} />}
      {!keys && isLoading && <Loading what="the keys" />}
      {keys &&
        KINDS.map((kind) => (
          <section key={kind} class={cardStyles.card} aria-label={KIND_TITLES[kind]}>
            <h3>{KIND_TITLES[kind]}</h3>
            <p class={textStyles.hint}>{KIND_HINTS[kind]}</p>
            <KeyList
              keys={keys.filter((key) => key.kind === kind && key.state !== 'revoked')}
              empty="None."
              onAct={act}
            />
          </section>
        ))}
      {revoked.length > 0 && (
        <details class={cardStyles.card}>
          <summary>Revoked keys ({revoked.length})</summary>
          <KeyList keys={revoked} empty="" onAct={act} />
        </details>
      )}
      {open?.action === 'create' && <CreateDialog {...dialog} />}
      {open?.action === 'edit' && <EditDialog item={open.item} {...dialog} />}
      {open?.action === 'rotate' && <RotateDialog item={open.item} {...dialog} />}
      {open?.action === 'revoke' && <RevokeDialog item={open.item} {...dialog} />}
      {shown && open === null && <NewKeyDialog {...shown} onClose={() => setShown(null)} />}
    </section>
  )
}

interface KeyListProps {
  keys: ListedKey[]
  /** shown if there are none */
  empty: string
  onAct: (action: KeyAction, key: ListedKey) => void
}

function KeyList({ keys, empty, onAct }: KeyListProps) {
  if (keys.length === 0) return <p class={textStyles.hint}>{empty}</p>
  return (
    <ul class={styles.keys}>
      {keys.map((key) => (
        <KeyItem key={`${key.id} ${key.created_at}`} item={key} onAct={(action) => onAct(action, key)} />
      ))}
    </ul>
  )
}
