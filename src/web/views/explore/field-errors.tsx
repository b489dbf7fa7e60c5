import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import * as formStyles from '../../ui/form.module.css'

export interface FieldError {
  /** a JSON pointer into the question */
  path: string
  message: string
}

/** What is wrong with the question, or still to be chosen. */
export const FieldErrorsContext = createContext<FieldError[]>([])

/** What is wrong with a field, beside it. @param path with all that is below it */
export function FieldErrors({ path }: { path: string }) {
  const faults = useContext(FieldErrorsContext).filter((one) => one.path === path || one.path.startsWith(`${path}/`))
  return (
    <>
      {faults.map(({ path, message }) => (
        <p key={path} class={formStyles.fault}>
          {toSentence(message)}
        </p>
      ))}
    </>
  )
}

/** The service's own begin in the middle: the field is what is beside them. */
function toSentence(message: string): string {
  return message.startsWith('must') || message.startsWith('is') ? `This ${message}.` : message
}
