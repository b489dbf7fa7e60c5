import * as buttonStyles from './button.module.css'

/** Removes an item of a list. @param label says which one, such as `Remove series 2` */
export function RemoveButton({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <button type="button" class={buttonStyles.plain} aria-label={label} onClick={onClick}>
      ✕
    </button>
  )
}
