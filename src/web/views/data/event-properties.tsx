import { useState } from 'preact/hooks'
import { type ExactProperty, listProperties, listValues } from '../../api/schema.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import type { CsvRow } from '../../lib/csv.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatCount, formatNumber, formatShare } from '../../lib/format.js'
import { linkToEvent } from '../../lib/question.js'
import { linkTo } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import * as buttonStyles from '../../ui/button.module.css'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import * as tableStyles from '../../ui/table.module.css'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './event-properties.module.css'
import { ExportEvents } from './export-events.js'

/** Maximum number of values listed per property. */
const MAX_VALUES = 50

/** The properties of the events of a name. */
export function EventProperties({ event }: { event: string }) {
  const { value, error, isLoading, reload } = useLoaded(event, (signal) => listProperties(event, signal))
  const [isExporting, setExporting] = useState(false)
  return (
    <>
      <p class={pageHeaderStyles.back}>
        <a href={linkTo(['data'])}>← All events</a>
      </p>
      <header class={pageHeaderStyles.header}>
        <h1>
          <bdi>{escapeInvisible(event)}</bdi>
        </h1>
        <div class={pageHeaderStyles.actions}>
          <a class={buttonStyles.button} href={linkTo(['live'], { event })}>
            Follow live
          </a>
          <a class={buttonStyles.button} href={linkToEvent(event)}>
            Explore
          </a>
          {value && (
            <CsvButton name={`${event} properties`} rows={() => buildCsv(value.properties)} label="CSV of properties" />
          )}
          <Button onClick={() => setExporting(true)}>Export events…</Button>
        </div>
      </header>
      {isExporting && <ExportEvents event={event} onClose={() => setExporting(false)} />}
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="properties" />}
      {value && value.sampled > 0 && (
        <p class={textStyles.hint}>
          Based on the {value.sampled === 1 ? 'only event' : `latest ${formatCount(value.sampled, 'event')}`} with this
          name.
        </p>
      )}
      {value?.properties.map((property) => (
        <Property key={property.property} event={event} property={property} />
      ))}
      {value?.sampled === 0 && <Empty title="No events">The project has no events with this name.</Empty>}
      {value && value.sampled > 0 && value.properties.length === 0 && (
        <Empty title="No properties">These events have no properties.</Empty>
      )}
    </>
  )
}

function buildCsv(properties: ExactProperty[]): CsvRow[] {
  const rows = properties.map(({ property, share, types, examples }): CsvRow => {
    return [property, share, types.map(({ type }) => type).join(' '), ...examples]
  })
  return [['Property', 'Share', 'Types', 'Examples'], ...rows]
}

function Property({
  event,
  property: { property, share, types, examples },
}: {
  event: string
  property: ExactProperty
}) {
  const [isOpen, setOpen] = useState(false)
  const name = escapeInvisible(property)
  return (
    <section class={`${cardStyles.card} ${styles.property}`} aria-label={name}>
      <header>
        <h2>
          <bdi>{name}</bdi>
        </h2>
        <p class={textStyles.hint}>
          {types.map(({ type, share: part }) => (types.length > 1 ? `${type} ${formatShare(part)}` : type)).join(', ')}
        </p>
      </header>
      <p class={styles.share}>
        <progress value={share} max={1} aria-label={`Events that have ${name}`} />
        <span>{formatShare(share)} of events have it</span>
      </p>
      {!isOpen && <Chips texts={examples} />}
      {isOpen && <Values event={event} property={property} />}
      <p class={styles.links}>
        <Button look="inline" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide values' : 'Show values'}
        </Button>
        <a href={linkToEvent(event, property)} aria-label={`Explore by ${name}`}>
          Explore
        </a>
      </p>
    </section>
  )
}

function Chips({ texts }: { texts: string[] }) {
  return (
    <ul class={styles.chips} aria-label="Examples">
      {texts.map((text) => (
        <li key={text}>
          <code>{escapeInvisible(text)}</code>
        </li>
      ))}
    </ul>
  )
}

function Values({ event, property }: { event: string; property: string }) {
  const { value, error, isLoading, reload } = useLoaded(JSON.stringify([event, property]), (signal) => {
    // One more than is shown tells whether there are more.
    return listValues({ event, field: JSON.stringify(['properties', property]), limit: MAX_VALUES + 1 }, signal)
  })
  const shown = value?.slice(0, MAX_VALUES) ?? []
  const isCut = value !== null && value.length > MAX_VALUES
  return (
    <>
      {error && <Failure error={error} onRetry={reload} />}
      {isLoading && <Loading what="values" />}
      {shown.length > 0 && (
        <table class={styles.values}>
          <caption class={textStyles.hidden}>Values of {escapeInvisible(property)}</caption>
          <thead class={textStyles.hidden}>
            <tr>
              <th scope="col">Value</th>
              <th scope="col">Count</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ text, count }) => (
              <tr key={text}>
                <td>
                  <code>{escapeInvisible(text)}</code>
                </td>
                <td class={tableStyles.number}>{formatNumber(count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {isCut && <p class={textStyles.hint}>Only the {MAX_VALUES} most frequent are listed.</p>}
      {shown.length > 0 && (
        <CsvButton
          name={`${event} ${property}`}
          rows={() => ({ rows: [['Value', 'Count'], ...shown.map(({ text, count }) => [text, count])], isCut })}
          label="CSV of values"
          about={`CSV of values of ${escapeInvisible(property)}`}
        />
      )}
      {value?.length === 0 && <p class={textStyles.hint}>All values are too long to be listed.</p>}
    </>
  )
}
