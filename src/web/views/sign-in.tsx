import { useState } from 'preact/hooks'
import { type SignIn, signInWith } from '../api/sign-in.js'
import { useModal } from '../ui/dialog.js'
import { Failure } from '../ui/notice.js'

interface SignInProps {
  /** why somebody who was signed in is asked again */
  reason?: string
  onSignedIn: (signIn: SignIn) => void
}

/** Asks for a key, of which the browser keeps nothing: it gets a cookie that no script can read. */
export function SignInForm({ reason, onSignedIn }: SignInProps) {
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setBusy(true)
    setError(null)
    try {
      onSignedIn(await signInWith(String(new FormData(form).get('key')).trim()))
    } catch (failure) {
      setError(failure as Error)
      setBusy(false)
    }
  }
  return (
    <form onSubmit={submit}>
      <h1>Tallyhouse</h1>
      {reason && <p role="status">{reason}</p>}
      <label for="key">Key of the project</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck={false} required autofocus />
      <p class="hint">
        A read key (<code>rk_…</code>) to look, a secret key (<code>sk_…</code>) to edit and delete, too. The first
        start printed one; <code>npx tallyhouse keys create --project default --kind read</code> makes another.
      </p>
      {error && <Failure error={error} />}
      <button type="submit" class="primary" disabled={isBusy}>
        Sign in
      </button>
    </form>
  )
}

/** Asks over the whole page, which stays below it with all that was typed there. */
export function SignInAgain(props: Required<SignInProps>) {
  const element = useModal()
  return (
    // Escape would uncover the page.
    <dialog ref={element} class="sign-in" aria-label="Sign in again" onClose={() => element.current?.showModal()}>
      <SignInForm {...props} />
    </dialog>
  )
}
