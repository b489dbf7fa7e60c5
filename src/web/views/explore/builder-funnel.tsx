import { Funnel } from '../../../contract/question-schemas.js'
import type { Definition, Exclusion } from '../../../contract/questions.js'
import * as funnelStyles from '../../charts/funnel.module.css'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import type { FunnelDraft } from '../../lib/question.js'
import { AddButton } from '../../ui/add-button.js'
import { Button } from '../../ui/button.js'
import { RemoveButton } from '../../ui/remove-button.js'
import { Select } from '../../ui/select.js'
import * as builderStyles from './builder.module.css'
import { DefinitionField } from './event-field.js'
import { FieldErrors } from './field-errors.js'
import { WindowField } from './window-field.js'

const { minItems, maxItems } = Funnel.properties.steps
const ORDERS = [
  ['ordered', 'In this order'],
  ['strict', 'In this order, no step between'],
  ['any', 'In any order'],
] as const

interface FunnelBuilderProps {
  draft: FunnelDraft
  onChange: (draft: FunnelDraft) => void
}

/** The steps of a funnel and its rules. */
export function FunnelBuilder({ draft, onChange }: FunnelBuilderProps) {
  const { steps } = draft
  const keys = useRowKeys(steps.map((step) => JSON.stringify(step)))
  const set = (next: Definition[]) => {
    // Exclusions after a removed step are removed, too.
    const exclude = draft.exclude.filter(({ after }) => after < next.length)
    onChange({ ...draft, steps: next, exclude })
  }
  return (
    <>
      <section aria-label="Steps">
        <h2>Steps</h2>
        {steps.map((step, i) => (
          <fieldset key={keys[i]} class={builderStyles.part} aria-label={`Step ${i + 1}`}>
            <StepHeader index={i} steps={steps} onChange={set} />
            <DefinitionField
              label="Event"
              value={step}
              path={`/steps/${i}`}
              onChange={(next) => set(steps.with(i, next))}
            />
          </fieldset>
        ))}
        {steps.length < maxItems && (
          <AddButton look="add" onClick={() => set([...steps, { event: '', where: null }])}>
            + Step
          </AddButton>
        )}
      </section>
      <section aria-label="Rules">
        <WindowField label="Within" value={draft.window} onChange={(window) => onChange({ ...draft, window })} />
        <Select
          label="Order"
          value={draft.order}
          options={ORDERS}
          onChange={(order) => onChange({ ...draft, order })}
        />
        <Exclusions draft={draft} onChange={onChange} />
      </section>
    </>
  )
}

interface StepHeaderProps {
  index: number
  steps: Definition[]
  onChange: (steps: Definition[]) => void
}

function StepHeader({ index, steps, onChange }: StepHeaderProps) {
  const swap = (other: number) => {
    const [one, two] = [steps[index], steps[other]]
    if (one && two) onChange(steps.with(index, two).with(other, one))
  }
  const button = (text: string, label: string, isPossible: boolean, act: () => void) => (
    <Button look="plain" aria-label={`${label} step ${index + 1}`} disabled={!isPossible} onClick={act}>
      {text}
    </Button>
  )
  return (
    <header>
      <span class={funnelStyles.stepNumber}>{index + 1}</span>
      <span>
        {button('↑', 'Move up', index > 0, () => swap(index - 1))}
        {button('↓', 'Move down', index < steps.length - 1, () => swap(index + 1))}
        <RemoveButton
          label={`Remove step ${index + 1}`}
          disabled={steps.length <= minItems}
          onClick={() => onChange(steps.filter((_, other) => other !== index))}
        />
      </span>
    </header>
  )
}

/** Events that disqualify a user if they occur between two steps. */
function Exclusions({ draft, onChange }: FunnelBuilderProps) {
  const { exclude, steps } = draft
  const keys = useRowKeys(exclude.map((one) => JSON.stringify(one)))
  const set = (next: Exclusion[]) => onChange({ ...draft, exclude: next })
  const between = steps.slice(1).map((_, i) => [String(i + 1), `Between steps ${i + 1} and ${i + 2}`] as const)
  return (
    <>
      {exclude.map((one, i) => (
        <fieldset key={keys[i]} class={builderStyles.part} aria-label={`Exclusion ${i + 1}`}>
          <header>
            <span>Exclude</span>
            <RemoveButton
              label={`Remove exclusion ${i + 1}`}
              onClick={() => set(exclude.filter((_, other) => other !== i))}
            />
          </header>
          <DefinitionField
            label="Event"
            value={one}
            path={`/exclude/${i}`}
            onChange={(next) => set(exclude.with(i, next))}
          />
          <Select
            label="Where"
            hidesLabel
            value={String(one.after)}
            options={between}
            onChange={(after) => set(exclude.with(i, { ...one, after: Number(after) }))}
          />
        </fieldset>
      ))}
      <FieldErrors path="/exclude" />
      <AddButton onClick={() => set([...exclude, { event: '', where: null, after: 1 }])}>
        + Exclude an event between steps
      </AddButton>
    </>
  )
}
