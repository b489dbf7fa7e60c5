import type { Shards } from '../clickhouse/shards.js'
import { pieces } from '../lib/pieces.js'
import { lastIdAt } from '../model/event-id.js'
import type { Position } from '../model/position.js'
import type { Profile } from '../model/profile.js'
import { formatProperties } from '../model/properties.js'
import type { States } from '../states/state-store.js'
import { readEventsOfUser } from '../store/event-pages.js'
import { readSessionsOfUser } from '../store/sessions.js'
import type { Aliases } from './aliases/aliases.js'

/**
 * How long the first bytes of a user's sessions or events may take, ms. Longer than for a page, because the query may
 * have to read all events of the project, and shorter than the 120 s without data after which clients give up.
 */
const LIMIT_MS = 100_000
/** Profiles that are read at a time. */
const AT_ONCE = 100

export interface UserExportParts {
  profiles: States<Profile>
  aliases: Aliases
  shards: Shards
}

/**
 * Everything stored about a user under any of its names, as lines of NDJSON, each with its `type`: the profile, the
 * aliases, the sessions, the events. Properties are the text that was sent, except that line breaks between its tokens
 * become spaces. Sessions and events are only queried once the lines before them were consumed. Yields nothing for an
 * unknown user.
 * @param user `stored` is the position up to which everything is in ClickHouse
 * @throws StoreError, StoreUnreachableError; the lines so far are incomplete
 */
export async function* exportUser(
  { profiles, aliases, shards }: UserExportParts,
  user: { projectId: string; distinctId: string; stored: Position },
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const { projectId } = user
  const distinctId = await aliases.resolve(projectId, user.distinctId)
  const distinctIds = [...(await aliases.findNames(projectId, [distinctId])).values()].flat(2)
  const profile = await profiles.get(projectId, distinctId)
  if (profile) yield Buffer.from(profileLine(distinctId, profile))
  const aliasNames = distinctIds.filter((name) => name !== distinctId)
  for (const some of pieces(aliasNames, AT_ONCE)) {
    const earlier = await Promise.all(some.map((alias) => profiles.get(projectId, alias)))
    yield Buffer.from(some.map((alias, i) => formatAliasLines(distinctId, alias, earlier[i] ?? null)).join(''))
  }
  const reading = { signal, limitMs: LIMIT_MS, project: projectId }
  yield* await readSessionsOfUser(shards, { projectId, distinctIds }, reading)
  yield* await readEventsOfUser(shards, { projectId, distinctIds, upTo: lastIdAt(user.stored) }, reading)
}

/** The alias, and the profile that its name had before it became an alias, if any. */
function formatAliasLines(distinctId: string, alias: string, profile: Profile | null): string {
  const line = `${JSON.stringify({ type: 'alias', distinct_id: distinctId, alias })}\n`
  return profile ? profileLine(alias, profile) + line : line
}

function profileLine(distinctId: string, { properties, createdAt, updatedAt }: Profile): string {
  const text = formatProperties(properties).replace(/[\r\n]/g, ' ')
  return `{"type":"profile","distinct_id":${JSON.stringify(distinctId)},"properties":${text},"created_at":${createdAt},"updated_at":${updatedAt}}\n`
}
