import type { ButtonHTMLAttributes } from 'preact'
import * as styles from './button.module.css'

const LOOKS = {
  primary: styles.primary,
  danger: styles.danger,
  plain: styles.plain,
  link: styles.link,
  /** a link within a text */
  inline: styles.inline,
  /** adds an item to a list */
  add: styles.add,
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { look?: keyof typeof LOOKS | undefined }

/** A button, which submits no form unless its type says so. */
export function Button({ look, ...button }: ButtonProps) {
  return <button type="button" class={look && LOOKS[look]} {...button} />
}
