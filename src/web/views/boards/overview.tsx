import { useEffect, useMemo, useState } from 'preact/hooks'
import type { SessionsDefinition } from '../../../contract/questions.js'
import type { EventName } from '../../../contract/responses.js'
import { listEvents } from '../../api/events.js'
import { listEventNames } from '../../api/schema.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { formatControls, parseControls, readControls } from '../../lib/board-controls.js'
import { navigate } from '../../lib/navigation.js'
import { findPageViews } from '../../lib/page-views.js'
import { chooseSessions, getProjectSettings } from '../../lib/project-settings.js'
import { omitProjectDefaults } from '../../lib/question.js'
import { linkTo } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import { CopyButton } from '../../ui/copy-button.js'
import { NameDialog } from '../../ui/name-dialog.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { BoardBar } from './board-bar.js'
import { createBoard, WHY_SECRET } from './board-links.js'
import { CardGrid } from './card-grid.js'
import { type BoardData, suggestBoard, suggestUsualBoard } from './default-cards.js'

/** How long to wait for the event names before showing placeholder cards. */
const LATE_MS = 100
/** How many page views are searched for session ids. */
const NEWEST = '20'
const NO_DATA: BoardData = { events: [], sessions: null }

interface OverviewProps {
  canEdit: boolean
  /** of the URL, with the controls */
  query: URLSearchParams
  onSaved: () => void
}

/** The default board of a project, based on its data. */
export function Overview({ canEdit, query, onSaved }: OverviewProps) {
  const { board, error, isLoading, reload } = useSuggestedBoard()
  const [isNaming, setNaming] = useState(false)
  const isLate = useLate()
  const isEmpty = board.cards.length === 0
  const isGuessed = isLate && isLoading && isEmpty
  const { cards, display } = isGuessed ? suggestUsualBoard() : board
  const own = parseControls(display)
  const controls = readControls(query, own)
  return (
    <>
      <header class={pageHeaderStyles.header}>
        <h1>Overview</h1>
        <div class={pageHeaderStyles.actions}>
          <CopyButton label="Copy link" text={location.href} />
          <Button
            disabled={!canEdit || isEmpty}
            title={canEdit ? undefined : WHY_SECRET}
            onClick={() => setNaming(true)}
          >
            Save as board
          </Button>
        </div>
      </header>
      {error && <Failure error={error} onRetry={reload} />}
      {isLoading && isEmpty && !isGuessed && <Loading what="the names of events" />}
      {!isLoading && !error && isEmpty && (
        <Empty title="There are no events yet">
          <p>Once some have arrived, this board shows them.</p>
          <Button onClick={reload}>Look again</Button>
        </Empty>
      )}
      {cards.length > 0 && (
        <BoardBar
          controls={controls}
          onChange={(next) => navigate(linkTo(['overview'], formatControls(next, own)), 'replace')}
        />
      )}
      <CardGrid cards={cards} saved={null} controls={controls} />
      {isNaming && (
        <NameDialog
          title="Save as board"
          name="Overview"
          action={{
            text: 'Save board',
            act: async (name) => {
              await createBoard({ name, cards, display: omitProjectDefaults(controls) })
              onSaved()
            },
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  )
}

/** A suggested board, based on the data of the project. */
export function useSuggestedBoard() {
  const { value, error, isLoading, reload } = useLoaded('events', async (signal): Promise<BoardData> => {
    const { events } = await listEventNames(signal)
    return { events, sessions: await chooseVisits(events, signal) }
  })
  const { timezone } = getProjectSettings()
  const board = useMemo(() => suggestBoard(value ?? NO_DATA, timezone, Date.now()), [value, timezone])
  return { board, error, isLoading, reload }
}

/** Page views without session ids belong to no visit, unless visits are separated by pauses. */
async function chooseVisits(events: EventName[], signal: AbortSignal): Promise<SessionsDefinition | null> {
  const [pageView] = findPageViews(events)
  if (pageView === undefined || getProjectSettings().sessions !== 'id') return null
  const newest = await listEvents({ event: pageView, order: 'desc', limit: NEWEST }, signal)
  return newest.events.some(({ session_id }) => session_id !== undefined) ? null : chooseSessions('gap')
}

/** Whether the component was mounted longer than `LATE_MS` ago. */
function useLate(): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), LATE_MS)
    return () => clearTimeout(timer)
  }, [])
  return isLate
}
