import { useState } from 'preact/hooks'
import type { ErasedUsers } from '../../../contract/responses.js'
import type { SignIn } from '../../api/sign-in.js'
import { eraseUser, exportPath } from '../../api/users.js'
import { visible } from '../../lib/visible.js'
import { Confirm } from '../../ui/dialog.js'

interface UserActionsProps {
  distinctId: string
  signIn: SignIn
  onErased: (result: ErasedUsers) => void
}

/** Downloads all that there is of a user, and erases it. */
export function UserActions({ distinctId, signIn, onErased }: UserActionsProps) {
  const [isAsking, setAsking] = useState(false)
  const mayErase = signIn.kind === 'secret'
  return (
    <div class="user-actions">
      <a class="button" href={exportPath(distinctId)} download>
        Export
      </a>
      {mayErase ? (
        <button type="button" class="danger" onClick={() => setAsking(true)}>
          Erase…
        </button>
      ) : (
        <small>Sign in with a secret key to erase.</small>
      )}
      {isAsking && <AskErase distinctId={distinctId} onErased={onErased} onClose={() => setAsking(false)} />}
    </div>
  )
}

function AskErase({ distinctId, onErased, onClose }: Omit<UserActionsProps, 'signIn'> & { onClose: () => void }) {
  const [typed, setTyped] = useState('')
  return (
    <Confirm
      title="Erase this user?"
      action="Erase for good"
      isBlocked={typed !== distinctId}
      onConfirm={async () => onErased(await eraseUser(distinctId))}
      onClose={onClose}
    >
      <p>
        The profile, the other names, all sessions and all events of this user disappear from every list and every
        answer, and then from the disk. Nobody can bring them back; export them first if you may need them.
      </p>
      <label for="erase-id">
        To go on, type the user’s id: <code>{visible(distinctId)}</code>
      </label>
      <input
        id="erase-id"
        class="full"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </Confirm>
  )
}
