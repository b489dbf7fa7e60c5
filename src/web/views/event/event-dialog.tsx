import { useState } from 'preact/hooks'
import { deleteEvent, type ExactEvent, readEvent } from '../../api/events.js'
import type { SignIn } from '../../api/sign-in.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { visible } from '../../lib/visible.js'
import { Confirm, Dialog } from '../../ui/dialog.js'
import { ExactTexts } from '../../ui/exact-texts.js'
import { Failure, Loading } from '../../ui/notice.js'
import { EventFacts } from './event-facts.js'
import { PropertiesForm } from './properties-form.js'

interface EventDialogProps {
  eventId: string
  signIn: SignIn
  onClose: () => void
  /** called with the event as it is once it was edited; with null once it was deleted */
  onChange?: (event: ExactEvent | null) => void
}

/** One event: its exact text, its user and session; with a secret key it can be edited and deleted. */
export function EventDialog({ eventId, signIn, onClose, onChange }: EventDialogProps) {
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
    <Dialog title={event ? visible(event.event) : 'Event'} onClose={onClose} isWide>
      {error && <Failure error={error} onRetry={reload} />}
      {!event && !error && <Loading what="the event" />}
      {event && <EventFacts event={event} />}
      {event && mode === 'edit' && (
        <PropertiesForm eventId={eventId} text={event.text} onSaved={onSaved} onCancel={() => setMode('look')} />
      )}
      {event && mode !== 'edit' && (
        <>
          <ExactTexts text={event.text} />
          <Actions signIn={signIn} onEdit={() => setMode('edit')} onDelete={() => setMode('delete')} />
        </>
      )}
      {mode === 'delete' && (
        <Confirm title="Delete this event?" action="Delete event" onConfirm={remove} onClose={() => setMode('look')}>
          <p>It disappears from every list and every answer, for good.</p>
        </Confirm>
      )}
    </Dialog>
  )
}

function Actions({ signIn, onEdit, onDelete }: { signIn: SignIn; onEdit: () => void; onDelete: () => void }) {
  if (signIn.kind !== 'secret') return <p class="hint after">Sign in with a secret key to edit or delete events.</p>
  return (
    <footer>
      <button type="button" class="danger" onClick={onDelete}>
        Delete…
      </button>
      <button type="button" onClick={onEdit}>
        Edit properties
      </button>
    </footer>
  )
}
