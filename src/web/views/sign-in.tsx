import { type Access, signIn } from '../api/sign-in.js'
import { useAction } from '../hooks/use-action.js'
import { Button } from '../ui/button.js'
import { useModal } from '../ui/dialog.js'
import { Failure } from '../ui/notice.js'
import * as textStyles from '../ui/text.module.css'
import * as styles from './sign-in.module.css'

interface SignInFormProps {
  /** why the user has to sign in again */
  reason?: string
  onSignedIn: (access: Access) => void
}

/** The sign-in form. The browser never stores the key; it gets an HttpOnly cookie. */
export function SignInForm({ reason, onSignedIn }: SignInFormProps) {
  const { error, isBusy, run } = useAction()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    void run(async () => onSignedIn(await signIn(String(new FormData(form).get('key')).trim())))
  }
  return (
    <form onSubmit={submit}>
      <h1>Tallyhouse</h1>
      {reason && <p role="status">{reason}</p>}
      <label for="key">Key of the project</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck={false} required autofocus />
      <p class={textStyles.hint}>
        A read key (<code>rk_…</code>) to look, a secret key (<code>sk_…</code>) to edit and delete, too. The first
        start printed one; <code>npx tallyhouse keys create --project default --kind read</code> makes another.
      </p>
      {error && <Failure error={error} />}
      <Button type="submit" look="primary" disabled={isBusy}>
        Sign in
      </Button>
    </form>
  )
}

/** Covers the page with the sign-in form and keeps what was typed there. */
export function SignInAgain(props: Required<SignInFormProps>) {
  const element = useModal()
  return (
    // Escape would reveal the page.
    <dialog ref={element} class={styles.signIn} aria-label="Sign in again" onClose={() => element.current?.showModal()}>
      <SignInForm {...props} />
    </dialog>
  )
}
