import { QUOTAS } from '../../../contract/project-settings.js'
import { type ProjectUsage, USAGE_COLUMNS, type UsedOnDay } from '../../../contract/responses.js'
import { readUsage } from '../../api/project.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import type { CsvRow } from '../../lib/csv.js'
import { formatBytes, formatDuration, formatNumber, formatShare } from '../../lib/format.js'
import * as cardStyles from '../../ui/card.module.css'
import { CsvButton } from '../../ui/csv-button.js'
import { Failure, Loading } from '../../ui/notice.js'
import { Scrollable } from '../../ui/scrollable.js'
import * as tableStyles from '../../ui/table.module.css'
import * as textStyles from '../../ui/text.module.css'
import { formatAmount, lowerFirst, QUOTA_NAMES } from './setting-text.js'
import * as styles from './settings-form.module.css'

/** The usage of the project. @param revision of the settings; a change reloads the usage */
export function Usage({ revision }: { revision: number }) {
  const { value, error, isLoading, reload } = useLoaded(String(revision), readUsage)
  return (
    <section aria-label="Usage" class={cardStyles.card} aria-busy={isLoading}>
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the usage" />}
      {value && (
        <>
          <p>Data on the disk: {formatBytes(value.stored_bytes)}</p>
          {value.quotas.map((quota) => (
            <UsedQuota key={quota.name} {...quota} />
          ))}
          {value.days.length === 0 ? (
            <p class={textStyles.hint}>No usage in the last 30 days.</p>
          ) : (
            <>
              <Days days={value.days} />
              <div class={styles.footer}>
                <CsvButton name="usage" rows={() => toCsv(value.days)} />
              </div>
            </>
          )}
        </>
      )}
    </section>
  )
}

function UsedQuota({ name, limit, mode, used }: ProjectUsage['quotas'][number]) {
  const known = QUOTAS.find((one) => one === name)
  const title = known ? QUOTA_NAMES[known] : name
  return (
    <p class={styles.used}>
      <progress value={used} max={limit} aria-label={`Used of ${lowerFirst(title)}`} />
      <span>
        {title}: {formatAmount(name, used)} of {formatAmount(name, limit)} ({formatShare(used / limit)}), {mode} limit
      </span>
    </p>
  )
}

function Days({ days }: { days: UsedOnDay[] }) {
  return (
    <Scrollable label="Usage by day" class={tableStyles.scroll}>
      <table>
        <caption class={textStyles.hidden}>Usage by day, in UTC</caption>
        <thead>
          <tr>
            <th scope="col">Day (UTC)</th>
            {['Events', 'Data received', 'Data on the disk', 'CPU time of reads'].map((title) => (
              <th key={title} scope="col" class={tableStyles.number}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days.toReversed().map(({ day, events, bytes, stored_bytes, read_cpu_seconds }) => (
            <tr key={day}>
              <th scope="row">{day}</th>
              <td class={tableStyles.number}>{formatNumber(events)}</td>
              <td class={tableStyles.number}>{formatBytes(bytes)}</td>
              <td class={tableStyles.number}>{stored_bytes === 0 ? '–' : formatBytes(stored_bytes)}</td>
              <td class={tableStyles.number}>
                {read_cpu_seconds === null ? '–' : formatDuration(read_cpu_seconds * 1000)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrollable>
  )
}

function toCsv(days: UsedOnDay[]): CsvRow[] {
  return [[...USAGE_COLUMNS], ...days.map((one) => USAGE_COLUMNS.map((name) => one[name]))]
}
