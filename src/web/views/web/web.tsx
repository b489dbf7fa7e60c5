import { useState } from 'preact/hooks'
import type { Filter, SessionsDefinition } from '../../../contract/questions.js'
import type { EventName } from '../../../contract/responses.js'
import { changeProject, readProject } from '../../api/project.js'
import { listEventNames } from '../../api/schema.js'
import { AnswerNotes } from '../../charts/answer-notes.js'
import { DrillDownArea } from '../../charts/drill-down.js'
import { NumberButton } from '../../charts/number-button.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { usePoll } from '../../hooks/use-poll.js'
import { useRound } from '../../hooks/use-round.js'
import { drillIntoLine } from '../../lib/answer-table.js'
import type { BoardControls } from '../../lib/board-controls.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { joinFilters } from '../../lib/filters.js'
import { formatCount, formatWindow } from '../../lib/format.js'
import { navigate } from '../../lib/navigation.js'
import { findPageViews, NO_BOTS } from '../../lib/page-views.js'
import { chooseSessions, getProjectSettings } from '../../lib/project-settings.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { ActionDialog } from '../../ui/dialog.js'
import * as liveStatusStyles from '../../ui/live-status.module.css'
import * as loadingStyles from '../../ui/loading.module.css'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { Pills } from '../../ui/pills.js'
import { RangeFields, useMoment } from '../range-fields.js'
import * as rangeStyles from '../range-fields.module.css'
import { formatSessions } from '../settings/setting-text.js'
import type { ViewProps } from '../view-props.js'
import { GoalsPanel } from './goals.js'
import { buildNumbersCsv, Numbers } from './numbers.js'
import { PanelFooter, TabPanel, useSeries, useWeb, WebContext } from './panel.js'
import * as styles from './web.module.css'
import {
  addFilter,
  askNumbers,
  askOnline,
  describeFilter,
  leavesOutBots,
  listFilters,
  PANELS,
  SERIES,
  type WebSource,
} from './web-questions.js'
import { linkToState, readState, type WebState } from './web-state.js'

const ONLINE_MS = 5 * 60_000
const ONLINE_POLL_MS = 30_000

/** The visits of a site: who came from where, and what they looked at. */
export default function Web({ route, access }: ViewProps) {
  const { value, error, reload } = useLoaded('events', listEventNames)
  if (error) return <Failure error={error} onRetry={reload} />
  if (!value) return <Loading what="the names of events" />
  const pageViews = findPageViews(value.events)
  if (pageViews.length === 0) {
    return (
      <>
        <h1>Web</h1>
        <Empty title="There are no page views yet">
          <p>Once a site sends some, this view shows its visitors.</p>
        </Empty>
      </>
    )
  }
  return (
    <DrillDownArea place="web">
      <Site
        events={value.events}
        pageViews={pageViews}
        state={readState(route.query)}
        canChange={access.keyKind === 'secret'}
      />
    </DrillDownArea>
  )
}

interface SiteProps {
  events: EventName[]
  pageViews: string[]
  state: WebState
  /** whether the key may change settings of the project */
  canChange: boolean
}

function Site({ events, pageViews, state, canChange }: SiteProps) {
  const { controls, number, tabs, goals, sessions } = state
  const show = (next: Partial<WebState>) => navigate(linkToState({ ...state, ...next }), 'replace')
  const filter = (where: Filter | null) => show({ controls: { ...controls, where } })
  const source: WebSource = { pageViews, sessions }
  const question = askNumbers(source)
  const round = useRound()
  const numbers = useSeries(question, { compare: true }, { controls, round }, 0)
  const loaded = numbers.value
  const onFilter = (added: Filter) => filter(addFilter(controls.where, added))
  return (
    <WebContext.Provider value={{ source, controls, round, onFilter }}>
      <header class={pageHeaderStyles.header}>
        <h1>Web</h1>
        <Online where={controls.where} />
      </header>
      <WebBar controls={controls} onChange={(next) => show({ controls: next })} />
      <section class={cardStyles.card} aria-label="Visits">
        {numbers.error && <Failure error={numbers.error} onRetry={numbers.reload} />}
        {!loaded && numbers.isLoading && <Loading what="the numbers" />}
        {loaded && (
          <div class={loadingStyles.answer} aria-busy={numbers.isLoading}>
            <AnswerNotes result={loaded} />
            <Numbers {...loaded} chosen={number} onChoose={(next) => show({ number: next })} />
            <VisitsNote
              sessions={sessions}
              areMissing={hasNoVisits(loaded.answer.results)}
              canChange={canChange}
              onChange={(next) => show({ sessions: next })}
            />
          </div>
        )}
        <PanelFooter
          title="Visits"
          question={question}
          display={{ compare: true, as: 'number' }}
          csv={loaded && (() => buildNumbersCsv(loaded))}
          isOld={numbers.isOld}
        />
      </section>
      <div class={styles.panels}>
        {PANELS.map((panel, i) => (
          <TabPanel
            key={panel.id}
            panel={panel}
            selected={tabs[panel.id] ?? ''}
            priority={i + 1}
            onSelect={(id) => show({ tabs: { ...tabs, [panel.id]: id } })}
          />
        ))}
        <GoalsPanel
          events={events}
          chosen={goals}
          priority={PANELS.length + 1}
          onChoose={(next) => show({ goals: next })}
        />
      </div>
    </WebContext.Provider>
  )
}

/** The range and the filters, each with a button that removes it. */
function WebBar({ controls, onChange }: { controls: BoardControls; onChange: (controls: BoardControls) => void }) {
  const moment = useMoment(controls)
  const { where } = controls
  const filters = listFilters(where)
  return (
    <section aria-label="Range and filters">
      <div class={rangeStyles.range}>
        <RangeFields choice={controls} moment={moment} onChange={(choice) => onChange({ ...choice, where })} />
      </div>
      <Pills
        label="Filters"
        texts={filters.map(describeFilter)}
        nameRemoval={(text) => `Remove filter: ${text}`}
        onRemove={(index) => onChange({ ...controls, where: joinFilters(filters.toSpliced(index, 1)) })}
      >
        {!leavesOutBots(where) && (
          <li>
            <Button look="plain" onClick={() => onChange({ ...controls, where: joinFilters([NO_BOTS, ...filters]) })}>
              Leave out bots
            </Button>
          </li>
        )}
      </Pills>
    </section>
  )
}

/** How many users have sent something in the last five minutes. */
function Online({ where }: { where: Filter | null }) {
  const [now, setNow] = useState(Date.now)
  usePoll(() => setNow(Date.now()), ONLINE_POLL_MS)
  const { source } = useWeb()
  const question = askOnline(where, source, { from: now - ONLINE_MS, to: now })
  const { value } = useSeries(question, {}, null, 1)
  const line = value?.answer.results[0]
  if (!value || !line) return null
  return (
    <p class={`${liveStatusStyles.status} ${styles.online}`} data-state={line.total ? 'live' : undefined}>
      <NumberButton
        text={`${formatCount(line.total ?? 0, 'visitor')} online`}
        title="in the last 5 minutes"
        drillDown={drillIntoLine(value.answer, line)}
      />
    </p>
  )
}

/** Whether there are page views, but none belongs to a visit. */
function hasNoVisits(lines: readonly { series: number; total: number | null }[]): boolean {
  const find = (series: number) => lines.find((line) => line.series === series)?.total ?? 0
  return find(SERIES.views) > 0 && find(SERIES.visits) === 0
}

interface VisitsNoteProps {
  sessions: SessionsDefinition
  /** whether no page view belongs to a visit */
  areMissing: boolean
  canChange: boolean
  onChange: (sessions: SessionsDefinition) => void
}

/** Explains how visits are separated, unless that is the default way, and offers the alternative. */
function VisitsNote({ sessions, areMissing, canChange, onChange }: VisitsNoteProps) {
  const [isAsking, setAsking] = useState(false)
  const isDefault = (sessions === 'id') === (getProjectSettings().sessions === 'id')
  if (sessions === 'id' && isDefault && !areMissing) return null
  const other = chooseSessions(sessions === 'id' ? 'gap' : 'id')
  return (
    <>
      <div role="status">
        {sessions === 'id'
          ? areMissing && 'The page views of this range have no session ids, so they do not belong to any visits. '
          : `A visit ends with a pause of ${formatWindow(sessions.gap)}. `}
        <Button look="inline" onClick={() => onChange(other)}>
          Tell visits apart by {other === 'id' ? 'session ids' : `pauses of ${formatWindow(other.gap)}`}
        </Button>
        {!isDefault && canChange && (
          <>
            {' '}
            <Button look="inline" onClick={() => setAsking(true)}>
              Make it the project’s default…
            </Button>
          </>
        )}
      </div>
      {isAsking && (
        <DefaultDialog
          sessions={sessions}
          // The setting now has this definition, so the link no longer needs it.
          onSaved={() => onChange(sessions)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  )
}

interface DefaultDialogProps {
  sessions: SessionsDefinition
  onSaved: () => void
  onClose: () => void
}

/** Asks before a definition of visits replaces that of the project, which may have a filter that the page cannot edit. */
function DefaultDialog({ sessions, onSaved, onClose }: DefaultDialogProps) {
  const { value, error, reload } = useLoaded('project', readProject)
  const save = async () => {
    if (!value) return
    await changeProject({ sessions }, value.revision)
    onSaved()
  }
  return (
    <ActionDialog
      title="Tell visits apart in another way?"
      action="Make it the default"
      isBlocked={value === null}
      onConfirm={save}
      onClose={onClose}
    >
      {error && <Failure error={error} onRetry={reload} />}
      {!value && !error && <Loading what="the project" />}
      {value && (
        <p>
          Visits are told apart by <b>{escapeInvisible(formatSessions(value.sessions))}</b> now. This changes that to{' '}
          <b>{formatSessions(sessions)}</b> for everyone, and for past events, too.
        </p>
      )}
    </ActionDialog>
  )
}
