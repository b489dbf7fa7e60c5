import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import * as formStyles from '../../ui/form.module.css'

interface FieldError {
  /** a JSON pointer into the question */
  path: string
  message: string
}

/** Validation errors of the question, including missing choices. */
export const FieldErrorsContext = createContext<FieldError[]>([])

/** The validation errors of a field and its children. @param path JSON pointer */
export function FieldErrors({ path }: { path: string }) {
  const errors = useContext(FieldErrorsContext).filter((one) => one.path === path || one.path.startsWith(`${path}/`))
  return (
    <>
      {errors.map(({ path, message }) => (
        <p key={path} class={formStyles.error}>
          {toSentence(message)}
        </p>
      ))}
    </>
  )
}

/** The service's messages are sentence fragments about the field. */
function toSentence(message: string): string {
  return message.startsWith('must') || message.startsWith('is') ? `This ${message}.` : message
}
