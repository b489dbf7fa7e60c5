import { useState } from 'preact/hooks'
import type { DeadLetter, ReplayedLetters } from '../../../contract/responses.js'
import { readDeadLetters, replayDeadLetters } from '../../api/dead-letters.js'
import type { SignIn } from '../../api/sign-in.js'
import { allPages } from '../../lib/all-pages.js'
import type { CsvRow } from '../../lib/csv.js'
import { numberText, timeText } from '../../lib/format.js'
import { go, linkTo } from '../../lib/route.js'
import { useLoaded } from '../../lib/use-loaded.js'
import { visible } from '../../lib/visible.js'
import { CsvButton } from '../../ui/csv-button.js'
import { Confirm } from '../../ui/dialog.js'
import { Empty, Failure, Loading } from '../../ui/notice.js'
import { Pages } from '../../ui/pages.js'
import { ExactText } from '../../ui/scrollable.js'

/** Fewer than one call may replay. */
const LIMIT = 20
const FILE_LIMIT = 100
/** An entry of this length was cut by the service. */
const CUT_LENGTH = 10_000

interface DeadLettersProps {
  signIn: SignIn
  /** of the route */
  query: URLSearchParams
}

/** What could not be stored, why, and the way to try again. */
export function DeadLetters({ signIn, query }: DeadLettersProps) {
  const page = Math.max(1, Math.floor(Number(query.get('page'))) || 1)
  const { value, error, isLoading, reload } = useLoaded(String(page), (signal) => readDeadLetters(page, LIMIT, signal))
  const [asked, setAsked] = useState<string[] | null>(null)
  const [result, setResult] = useState<ReplayedLetters | null>(null)
  const letters = value?.dead_letters ?? []
  const waiting = letters.filter(({ replayed_at }) => replayed_at === null).map(({ id }) => id)
  const mayReplay = signIn.kind === 'secret'
  const replay = async (ids: string[]) => {
    setResult(await replayDeadLetters(ids))
    reload()
  }
  return (
    <div aria-busy={isLoading}>
      <p class="hint">
        What ClickHouse cannot read in any form is kept here unchanged, with the reason. Once the cause is gone, replay
        it: it is stored once, however often it is replayed.
        {!mayReplay && ' Sign in with a secret key to replay.'}
      </p>
      {result && <Result result={result} />}
      {error && <Failure error={error} onRetry={reload} />}
      {!value && isLoading && <Loading what="the dead letters" />}
      {value && letters.length === 0 && (
        <Empty title={page > 1 ? 'This page is empty' : 'No dead letters'}>
          {page > 1 ? 'Go back to the previous one.' : 'Everything that was accepted could be stored.'}
        </Empty>
      )}
      {mayReplay && waiting.length > 0 && (
        <p>
          <button type="button" onClick={() => setAsked(waiting)}>
            {waiting.length === 1 ? 'Replay the one shown…' : `Replay all ${waiting.length} shown…`}
          </button>
        </p>
      )}
      {letters.length > 0 && <CsvButton name="dead-letters" rows={fileOf} />}
      {letters.map((letter) => (
        <Letter key={letter.id} letter={letter} onReplay={mayReplay ? () => setAsked([letter.id]) : undefined} />
      ))}
      <Pages
        page={page}
        hasMore={value?.hasMore ?? false}
        isLoading={isLoading}
        onChange={(next) => go(linkTo(['data', 'dead-letters'], { page: String(next) }))}
      />
      {asked && (
        <Confirm
          title={asked.length === 1 ? 'Replay this dead letter?' : `Replay ${asked.length} dead letters?`}
          action="Replay"
          onConfirm={() => replay(asked)}
          onClose={() => setAsked(null)}
        >
          <p>Their events become part of all answers. What still cannot be stored stays here.</p>
        </Confirm>
      )}
    </div>
  )
}

/** All of them, as far as the service shows their entries. */
async function fileOf(): Promise<CsvRow[]> {
  const letters = await allPages(async (page) => {
    const { dead_letters, hasMore } = await readDeadLetters(page, FILE_LIMIT)
    return { rows: dead_letters, hasMore }
  })
  const rows = letters.map(({ id, kind, reason, received_at, replayed_at, entry }): CsvRow => {
    const times = [received_at, replayed_at].map((instant) => instant && new Date(instant).toISOString())
    return [id, kind, ...times, reason, entry]
  })
  return [['ID', 'Kind', 'Received', 'Replayed', 'Reason', 'Entry'], ...rows]
}

function Letter({ letter, onReplay }: { letter: DeadLetter; onReplay: (() => void) | undefined }) {
  const { id, kind, reason, received_at, replayed_at, entry } = letter
  return (
    <section class="card letter" aria-label={`Dead letter ${id}`}>
      <header>
        <div>
          <h2>{timeText(received_at)}</h2>
          <p class="hint">
            <code>{id}</code>, {kind}
          </p>
        </div>
        {replayed_at !== null && <span class="letter-state">✓ Replayed {timeText(replayed_at)}</span>}
        {replayed_at === null && onReplay && (
          <button type="button" onClick={onReplay}>
            Replay…
          </button>
        )}
      </header>
      <p class="letter-reason">
        <bdi>{visible(reason)}</bdi>
      </p>
      <ExactText label={`Entry of dead letter ${id}`} text={visible(entry)} />
      {entry.length >= CUT_LENGTH && <p class="hint">This is its beginning; the rest is not shown.</p>}
    </section>
  )
}

function Result({ result: { replayed, refused } }: { result: ReplayedLetters }) {
  return (
    <div class={refused.length > 0 ? 'notice failure' : 'notice'} role="status">
      <p>
        {numberText(replayed)} stored now.
        {refused.length > 0 && ` ${numberText(refused.length)} still cannot be stored:`}
      </p>
      {refused.length > 0 && (
        <ul>
          {refused.map(({ id, reason }) => (
            <li key={id}>
              <code>{id}</code> <bdi>{visible(reason)}</bdi>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
