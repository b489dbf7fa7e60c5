import { useState } from 'preact/hooks'
import { deleteEvent, type ExactEvent, readEvent } from '../../api/events.js'
import type { Access } from '../../api/sign-in.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { Button } from '../../ui/button.js'
import { ActionDialog, Dialog } from '../../ui/dialog.js'
import { Failure, Loading } from '../../ui/notice.js'
import { PropertiesView } from '../../ui/properties-view.js'
import * as textStyles from '../../ui/text.module.css'
import { EventFacts } from './event-facts.js'
import { PropertiesForm } from './properties-form.js'

interface EventDialogProps {
  eventId: string
  access: Access
  onClose: () => void
  /** called with the edited event, or null after a deletion */
  onChange?: (event: ExactEvent | null) => void
}

/** An event with its exact properties, user and session; a secret key can edit and delete it. */
export function EventDialog({ eventId, access, onClose, onChange }: EventDialogProps) {
  const { value: event, error, reload } = useLoaded(eventId, (signal) => readEvent(eventId, signal))
  const [mode, setMode] = useState<'look' | 'edit' | 'delete'>('look')
  const remove = async () => {
    await deleteEvent(eventId)
    onChange?.(null)
    onClose()
  }
  const onSaved = (text: string) => {
    setMode('look')
    reload()
    if (event) onChange?.({ ...event, properties: JSON.parse(text), text })
  }
  return (
    <Dialog title={event ? escapeInvisible(event.event) : 'Event'} onClose={onClose} isWide>
      {error && <Failure error={error} onRetry={reload} />}
      {!event && !error && <Loading what="the event" />}
      {event && <EventFacts event={event} />}
      {event && mode === 'edit' && (
        <PropertiesForm eventId={eventId} text={event.text} onSaved={onSaved} onCancel={() => setMode('look')} />
      )}
      {event && mode !== 'edit' && (
        <>
          <PropertiesView text={event.text} />
          <Actions access={access} onEdit={() => setMode('edit')} onDelete={() => setMode('delete')} />
        </>
      )}
      {mode === 'delete' && (
        <ActionDialog
          title="Delete this event?"
          action="Delete event"
          onConfirm={remove}
          onClose={() => setMode('look')}
        >
          <p>This permanently deletes the event. Reports no longer count it.</p>
        </ActionDialog>
      )}
    </Dialog>
  )
}

function Actions({ access, onEdit, onDelete }: { access: Access; onEdit: () => void; onDelete: () => void }) {
  if (access.keyKind !== 'secret')
    return <p class={textStyles.hint}>Sign in with a secret key to edit or delete events.</p>
  return (
    <footer>
      <Button look="danger" onClick={onDelete}>
        Delete…
      </Button>
      <Button onClick={onEdit}>Edit properties</Button>
    </footer>
  )
}
