import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { useAction } from '../../hooks/use-action.js'
import { InvalidFieldsContext } from '../../hooks/use-invalid-field.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { Failure } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import * as textStyles from '../../ui/text.module.css'
import { SETTING_LABELS } from './setting-text.js'
import * as styles from './settings-form.module.css'

interface SettingsFormProps {
  title: string
  hint?: string
  /** result of the last save */
  status: string
  /** what would be saved */
  changed: object
  onSave: () => Promise<void>
  children: ComponentChildren
}

/** A section of settings, with a button that saves what has changed. */
export function SettingsForm({ title, hint, status, changed, onSave, children }: SettingsFormProps) {
  const { error, isBusy, run } = useAction()
  const [invalid, countInvalid] = useState(0)
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    void run(onSave)
  }
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <form class={cardStyles.card} onSubmit={submit}>
        {hint && <p class={textStyles.hint}>{hint}</p>}
        <InvalidFieldsContext.Provider value={countInvalid}>{children}</InvalidFieldsContext.Provider>
        {error && <Failure error={error} labels={SETTING_LABELS} />}
        <footer class={`${pageHeaderStyles.actions} ${styles.footer}`}>
          <Button type="submit" look="primary" disabled={isBusy || invalid > 0 || Object.keys(changed).length === 0}>
            Save
          </Button>
          <span role="status">{status}</span>
        </footer>
      </form>
    </section>
  )
}
