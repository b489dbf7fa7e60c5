import { useState } from 'preact/hooks'
import type { ErasedUsers } from '../../../contract/schemas.js'
import type { Access } from '../../api/sign-in.js'
import { eraseUser, toExportUrl } from '../../api/users.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { Button } from '../../ui/button.js'
import * as buttonStyles from '../../ui/button.module.css'
import { ActionDialog } from '../../ui/dialog.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { TextField } from '../../ui/text-field.js'

interface UserActionsProps {
  distinctId: string
  access: Access
  onErased: (result: ErasedUsers) => void
}

/** Exports and erases a user. */
export function UserActions({ distinctId, access, onErased }: UserActionsProps) {
  const [isAsking, setAsking] = useState(false)
  const mayErase = access.keyKind === 'secret'
  return (
    <div class={pageHeaderStyles.actions}>
      <a class={buttonStyles.button} href={toExportUrl(distinctId)} download>
        Export
      </a>
      {mayErase ? (
        <Button look="danger" onClick={() => setAsking(true)}>
          Erase…
        </Button>
      ) : (
        <small>Sign in with a secret key to erase users.</small>
      )}
      {isAsking && <ConfirmErase distinctId={distinctId} onErased={onErased} onClose={() => setAsking(false)} />}
    </div>
  )
}

function ConfirmErase({ distinctId, onErased, onClose }: Omit<UserActionsProps, 'access'> & { onClose: () => void }) {
  const [typed, setTyped] = useState('')
  return (
    <ActionDialog
      title="Erase this user?"
      action="Erase permanently"
      // Also accept the id as displayed, because nobody can type invisible characters.
      isBlocked={typed !== distinctId && typed !== escapeInvisible(distinctId)}
      onConfirm={async () => onErased(await eraseUser(distinctId))}
      onClose={onClose}
    >
      <p>
        This permanently deletes the user’s profile, other names, sessions and events. It cannot be undone. Export the
        user first if you may need the data.
      </p>
      <TextField
        label={
          <>
            To confirm, type the user’s id: <code>{escapeInvisible(distinctId)}</code>
          </>
        }
        spellcheck={false}
        value={typed}
        onChange={setTyped}
      />
    </ActionDialog>
  )
}
