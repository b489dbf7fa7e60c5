import type { ClickHouse } from '../clickhouse/client.js'
import { lastIdAt } from '../model/event-id.js'
import type { Position } from '../model/position.js'
import type { Profile } from '../model/profile.js'
import { formatProperties } from '../model/properties.js'
import { readEventsOfUser } from '../store/event-pages.js'
import { readSessionsOfUser } from '../store/sessions.js'
import type { StateStore } from './state-store.js'

/**
 * How long the first bytes of a user's sessions or events may take, ms. Longer than for a page, as the query may have to
 * read all events of the project, and shorter than the silence after which clients give up.
 */
const LIMIT_MS = 100_000

export interface UserExportParts {
  profiles: StateStore<Profile>
  clickhouse: ClickHouse
}

/**
 * Everything stored about a user as lines of NDJSON, each with its `type`: the profile, the sessions, the events.
 * Properties are the text that was sent, except that line breaks between its tokens become spaces. Sessions and events are
 * read once the line before them was consumed. Yields nothing for an unknown user.
 * @param user with the position up to which everything is stored
 * @throws StoreError, StoreUnreachableError; the lines so far are incomplete
 */
export async function* exportUser(
  { profiles, clickhouse }: UserExportParts,
  user: { projectId: string; distinctId: string; stored: Position },
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const { projectId, distinctId } = user
  const profile = await profiles.get(projectId, distinctId)
  if (profile) yield Buffer.from(profileLine(distinctId, profile))
  const reading = { signal, limitMs: LIMIT_MS, project: projectId }
  yield* await readSessionsOfUser(clickhouse, { projectId, distinctId }, reading)
  yield* await readEventsOfUser(clickhouse, { projectId, distinctId, upTo: lastIdAt(user.stored) }, reading)
}

function profileLine(distinctId: string, { properties, createdAt, updatedAt }: Profile): string {
  const text = formatProperties(properties).replace(/[\r\n]/g, ' ')
  return `{"type":"profile","distinct_id":${JSON.stringify(distinctId)},"properties":${text},"created_at":${createdAt},"updated_at":${updatedAt}}\n`
}
