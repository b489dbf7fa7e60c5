import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { CallError, send } from '../../api/call.js'
import { usePoll } from '../../hooks/use-poll.js'
import { formatTime } from '../../lib/format.js'
import { linkTo } from '../../lib/route.js'
import * as cardStyles from '../../ui/card.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import * as textStyles from '../../ui/text.module.css'
import { runChecks, summarize } from './checks.js'
import * as styles from './health.module.css'
import { parseMetrics } from './prometheus.js'
import { type Check, type Level, RECENT_MS, type Snapshot } from './snapshots.js'

const EVERY_MS = 5_000

/** A level is shown by a word and a sign, in addition to the colour. */
const LEVELS: Record<Level, { word: string; sign: string }> = {
  good: { word: 'Good', sign: '✓' },
  watch: { word: 'Worth a look', sign: '!' },
  bad: { word: 'Act now', sign: '✕' },
}

/** The state of the service as a list of checks. */
export default function Health() {
  const { snapshots, error, read } = useSnapshots()
  const now = snapshots.at(-1)
  if (!now)
    return error ? <UnreadableNotice error={error} onRetry={read} /> : <Loading what="the state of the service" />
  const checks = runChecks(snapshots)
  const { level, verdict } = error
    ? { level: 'watch' as const, verdict: `The state has been unknown since ${formatTime(now.at)}. Before that:` }
    : summarize(checks)
  return (
    <>
      <h1>Health</h1>
      {error && <UnreadableNotice error={error} onRetry={read} />}
      <p class={styles.overall} data-level={level} role="status">
        <Sign level={level} />
        {verdict}
      </p>
      <div class={styles.checks}>
        {checks.map((check) => (
          <Part key={check.title} check={check} />
        ))}
      </div>
      <p class={textStyles.hint}>As of {formatTime(now.at)}. Updated every five seconds while this page is open.</p>
    </>
  )
}

function Part({ check }: { check: Check }) {
  const { title, level, verdict, advice, facts, about, link } = check
  return (
    <section class={cardStyles.card} data-level={level} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class={styles.level}>
          <Sign level={level} />
          {LEVELS[level].word}
        </span>
      </header>
      <p>{verdict}</p>
      {advice && (
        <p class={styles.advice}>
          <strong>What to do:</strong> {advice}
        </p>
      )}
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p class={textStyles.hint}>
        {about} {link && <a href={linkTo(link.to)}>{link.text}</a>}
      </p>
    </section>
  )
}

function Sign({ level }: { level: Level }) {
  return (
    <span class={styles.sign} aria-hidden="true">
      {LEVELS[level].sign}
    </span>
  )
}

function UnreadableNotice({ error, onRetry }: { error: Error; onRetry: () => void }) {
  const isHidden = error instanceof CallError && [403, 404].includes(error.status)
  const hint = 'The service’s metrics cannot be read. A proxy may be blocking /metrics.'
  return <Failure error={isHidden ? new Error(hint) : error} onRetry={onRetry} />
}

/** Polls the state of the service. After a failure, the earlier snapshots stay. */
function useSnapshots(): { snapshots: Snapshot[]; error: Error | null; read: () => void } {
  const [snapshots, setSnapshots] = useState<Snapshot[]>([])
  const [error, setError] = useState<Error | null>(null)
  const isBusy = useRef(false)
  const read = useCallback(async () => {
    if (isBusy.current) return
    isBusy.current = true
    try {
      const now = await readSnapshot()
      // The newest snapshot from before the recent period is kept, to show what happened while the tab was hidden.
      setSnapshots((before) => [...before.filter((_, i) => (before[i + 1] ?? now).at > now.at - RECENT_MS), now])
      setError(null)
    } catch (failure) {
      setError(failure as Error)
    } finally {
      isBusy.current = false
    }
  }, [])
  useEffect(() => {
    read()
  }, [read])
  usePoll(read, EVERY_MS)
  return { snapshots, error, read }
}

/** Reads the current metrics of the service. @throws CallError */
async function readSnapshot(): Promise<Snapshot> {
  const [metrics, notReady] = await Promise.all([send('GET', '/metrics'), readWhyNotReady()])
  const text = await metrics.text()
  return { at: Date.now(), samples: parseMetrics(text), notReady }
}

async function readWhyNotReady(): Promise<string | null> {
  try {
    await send('GET', '/health/ready')
    return null
  } catch (error) {
    if (error instanceof CallError && error.code === 'unavailable') return error.message
    throw error
  }
}
