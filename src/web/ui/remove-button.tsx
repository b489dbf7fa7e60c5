import { Button } from './button.js'

/** Removes an item of a list. @param label says which one, such as `Remove series 2` */
export function RemoveButton({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <Button look="plain" aria-label={label} onClick={onClick}>
      ✕
    </Button>
  )
}
