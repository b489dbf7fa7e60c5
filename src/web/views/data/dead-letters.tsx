import { useState } from 'preact/hooks'
import type { DeadLetter, ReplayedDeadLetters } from '../../../contract/dead-letter-schemas.js'
import { MAX_DEAD_LETTERS } from '../../../contract/limits.js'
import { listDeadLetters, replayDeadLetters } from '../../api/dead-letters.js'
import type { Access } from '../../api/sign-in.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import type { CsvPart, CsvRow } from '../../lib/csv.js'
import { escapeInvisible } from '../../lib/escape-invisible.js'
import { formatCount, formatNumber, formatTime } from '../../lib/format.js'
import { navigate } from '../../lib/navigation.js'
import { readAllPages } from '../../lib/read-all-pages.js'
import { linkTo, parsePage } from '../../lib/route.js'
import { Button } from '../../ui/button.js'
import * as cardStyles from '../../ui/card.module.css'
import { TextBlock } from '../../ui/code.js'
import { CsvButton } from '../../ui/csv-button.js'
import { ActionDialog } from '../../ui/dialog.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import * as noticeStyles from '../../ui/notice.module.css'
import { Pagination } from '../../ui/pagination.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './dead-letters.module.css'

/** Below the limit of one replay call. */
const LIMIT = 20
/** The service truncates entries to this length. */
const CUT_LENGTH = 10_000

interface DeadLettersProps {
  access: Access
  /** query of the route */
  query: URLSearchParams
}

/** Dead letters with their reasons, and a way to replay them. */
export function DeadLetters({ access, query }: DeadLettersProps) {
  const page = parsePage(query)
  const { value, error, isLoading, reload } = useLoaded(String(page), (signal) => listDeadLetters(page, LIMIT, signal))
  const [idsToReplay, setIdsToReplay] = useState<string[] | null>(null)
  const [result, setResult] = useState<ReplayedDeadLetters | null>(null)
  const deadLetters = value?.dead_letters ?? []
  const waiting = deadLetters.filter(({ replayed_at }) => replayed_at === null).map(({ id }) => id)
  const mayReplay = access.keyKind === 'secret'
  const replay = async (ids: string[]) => {
    setResult(await replayDeadLetters(ids))
    reload()
  }
  return (
    <div aria-busy={isLoading}>
      <p class={textStyles.hint}>
        Accepted data that could not be stored is kept here unchanged, with the reason. Once the cause is fixed, replay
        it. Nothing is stored twice, even if you replay it again.
        {!mayReplay && ' Sign in with a secret key to replay dead letters.'}
      </p>
      {result && <Result result={result} />}
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="dead letters" />}
      {value && deadLetters.length === 0 && (
        <Empty title={page > 1 ? 'This page is empty' : 'No dead letters'}>
          {page > 1 ? 'Go back one page.' : 'All accepted data has been stored.'}
        </Empty>
      )}
      {mayReplay && waiting.length > 0 && (
        <p>
          <Button onClick={() => setIdsToReplay(waiting)}>
            {waiting.length === 1 ? 'Replay this dead letter…' : `Replay all ${waiting.length} on this page…`}
          </Button>
        </p>
      )}
      {deadLetters.length > 0 && <CsvButton name="dead-letters" rows={buildCsv} />}
      {deadLetters.map((deadLetter) => (
        <DeadLetterCard
          key={deadLetter.id}
          deadLetter={deadLetter}
          onReplay={mayReplay ? () => setIdsToReplay([deadLetter.id]) : undefined}
        />
      ))}
      <Pagination
        page={page}
        hasMore={value?.hasMore ?? false}
        isLoading={isLoading}
        onChange={(next) => navigate(linkTo(['data', 'dead-letters'], { page: String(next) }))}
      />
      {idsToReplay && (
        <ActionDialog
          title={idsToReplay.length === 1 ? 'Replay this dead letter?' : `Replay ${idsToReplay.length} dead letters?`}
          action="Replay"
          onConfirm={() => replay(idsToReplay)}
          onClose={() => setIdsToReplay(null)}
        >
          <p>Reports will include their events. Whatever still cannot be stored stays here.</p>
        </ActionDialog>
      )}
    </div>
  )
}

/** All dead letters, with entries as far as the service returns them. */
async function buildCsv(): Promise<CsvPart> {
  const { rows: deadLetters, isCut } = await readAllPages(
    (page) => listDeadLetters(page, MAX_DEAD_LETTERS),
    (page) => page.dead_letters,
    ({ id }) => id,
  )
  const rows = deadLetters.map(({ id, kind, reason, received_at, replayed_at, entry }): CsvRow => {
    const times = [received_at, replayed_at].map((instant) => instant && new Date(instant).toISOString())
    return [id, kind, ...times, reason, entry]
  })
  return { rows: [['ID', 'Kind', 'Received', 'Replayed', 'Reason', 'Entry'], ...rows], isCut }
}

function DeadLetterCard({ deadLetter, onReplay }: { deadLetter: DeadLetter; onReplay: (() => void) | undefined }) {
  const { id, kind, reason, received_at, replayed_at, entry } = deadLetter
  return (
    <section class={`${cardStyles.card} ${styles.deadLetter}`} aria-label={`Dead letter ${id}`}>
      <header>
        <div>
          <h2>{formatTime(received_at)}</h2>
          <p class={textStyles.hint}>
            <code>{id}</code>, {kind}
          </p>
        </div>
        {replayed_at !== null && <span class={styles.state}>✓ Replayed {formatTime(replayed_at)}</span>}
        {replayed_at === null && onReplay && <Button onClick={onReplay}>Replay…</Button>}
      </header>
      <p class={styles.reason}>
        <bdi>{escapeInvisible(reason)}</bdi>
      </p>
      <TextBlock label={`Entry of dead letter ${id}`} text={escapeInvisible(entry)} />
      {entry.length >= CUT_LENGTH && <p class={textStyles.hint}>Only the first 10,000 characters are shown.</p>}
    </section>
  )
}

function Result({ result: { replayed, refused } }: { result: ReplayedDeadLetters }) {
  return (
    <div
      class={refused.length > 0 ? `${noticeStyles.notice} ${noticeStyles.failure}` : noticeStyles.notice}
      role="status"
    >
      <p>
        {formatCount(replayed, 'dead letter')} stored.
        {refused.length > 0 && ` ${formatNumber(refused.length)} still could not be stored:`}
      </p>
      {refused.length > 0 && (
        <ul>
          {refused.map(({ id, reason }) => (
            <li key={id}>
              <code>{id}</code> <bdi>{escapeInvisible(reason)}</bdi>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
