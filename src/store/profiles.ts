import type { Readable } from 'node:stream'
import { LARGE_QUERY, literalArray } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { readText } from '../json/value.js'
import type { Profile } from '../model/profile.js'
import { formatTimes, readTimes } from '../model/property-times.js'
import { ARE_LINKS } from './aliases.js'
import { newestRows } from './newest-rows.js'
import { buildPageQuery, PAGE_SETTINGS } from './page.js'
import { createVersionedTable } from './versioned-table.js'

interface ProfileRow {
  created_at: string
  updated_at: string
  is_identified: number
  is_derived: number
  /** empty if all properties were set at `updated_at` */
  times: string
}

export const PROFILES = createVersionedTable<Profile, ProfileRow>({
  kind: 'profiles',
  columns: {
    created_at: 'Int64',
    updated_at: 'Int64',
    is_identified: 'UInt8',
    is_derived: 'UInt8',
    times: 'String',
  },
  toColumns: (profile) => ({
    created_at: profile?.createdAt ?? 0,
    updated_at: profile?.updatedAt ?? 0,
    is_identified: profile?.isIdentified ? 1 : 0,
    is_derived: profile?.isDerived ? 1 : 0,
    times: profile?.times ? formatTimes(profile.times) : '',
  }),
  toValue: ({ created_at, updated_at, is_identified, is_derived, times }, properties) => ({
    properties,
    ...(times && { times: readTimes(readText(times)) }),
    createdAt: Number(created_at),
    updatedAt: Number(updated_at),
    ...(is_identified === 1 && { isIdentified: true }),
    ...(is_derived === 1 && { isDerived: true }),
  }),
})

const PROFILE_JSON = `concat(
    '{"distinct_id":', toJSONString(distinct_id),
    ',"properties":', properties,
    ',"created_at":', toString(created_at),
    ',"updated_at":', toString(updated_at), '}')`

const OF_PROJECT = 'project_id = {project:String}'
const BY_NAME = 'ORDER BY project_id, distinct_id'

/** Excludes the profiles of names that have become aliases. */
function matchUsers(shards: Shards): string {
  const aliases = newestRows(shards, 'aliases', { keys: OF_PROJECT, columns: ['distinct_id'] })
  return `${OF_PROJECT} AND distinct_id GLOBAL NOT IN (SELECT alias FROM ${aliases} WHERE ${OF_PROJECT} AND ${ARE_LINKS})`
}

/**
 * Finds the names of a page without reading properties: otherwise the shards would send the properties of all profiles
 * of the project.
 */
function matchPageNames(shards: Shards): string {
  const names = newestRows(shards, 'profiles', { keys: OF_PROJECT, columns: ['created_at'] })
  return `distinct_id GLOBAL IN (SELECT distinct_id FROM ${names} WHERE ${matchUsers(shards)} ${BY_NAME} LIMIT {skipped:UInt64}, {limit:UInt32} + 1)`
}

/** A page of profiles as JSON texts, in the order of their distinct_id. */
export async function readProfilePage(
  shards: Shards,
  { projectId, limit, offset }: { projectId: string; limit: number; offset: number },
  signal?: AbortSignal,
): Promise<Readable> {
  const query = buildPageQuery({
    json: PROFILE_JSON,
    nextId: "repeat('-', 36)",
    from: `
      SELECT distinct_id, properties, created_at, updated_at
      FROM ${newestRows(shards, 'profiles', { keys: `${OF_PROJECT} AND ${matchPageNames(shards)}` })}
      WHERE ${shards.areSeveral ? OF_PROJECT : matchUsers(shards)}
      ${BY_NAME}`,
  })
  const rows = shards.areSeveral ? { offset: 0, skipped: offset } : { offset }
  return await shards.bytes(query, { project: projectId, limit, ...rows }, PAGE_SETTINGS, {
    signal,
    project: projectId,
  })
}

/** Epoch ms of the latest event, by user name; null without events. */
export type LastSeen = ReadonlyMap<string, number | null>

const NO_PROFILE = `p.distinct_id = ''`
const LISTED_JSON = `concat(
    '{"distinct_id":', toJSONString(u.name),
    ',"properties":', if(${NO_PROFILE}, '{}', p.properties),
    ',"created_at":', if(${NO_PROFILE}, 'null', toString(p.created_at)),
    ',"updated_at":', if(${NO_PROFILE}, 'null', toString(p.updated_at)),
    ',"last_seen":', u.seen, '}')`

/** These users with their profiles, if they have one, as JSON texts, in the order of the map. */
export async function readListedUsers(
  shards: Shards,
  { projectId, lastSeen }: { projectId: string; lastSeen: LastSeen },
  signal?: AbortSignal,
): Promise<Readable> {
  const names = literalArray([...lastSeen.keys()])
  const times = literalArray([...lastSeen.values()].map(String))
  const keys = `${OF_PROJECT} AND distinct_id IN (${names})`
  const query = `
    SELECT ${LISTED_JSON}
    FROM (SELECT arrayJoin(arrayZip(${names}, ${times}, range(1, ${lastSeen.size + 1}))) AS row, row.1 AS name, row.2 AS seen, row.3 AS place) AS u
    ANY LEFT JOIN (
      SELECT distinct_id, properties, created_at, updated_at FROM ${newestRows(shards, 'profiles', { keys })} WHERE ${keys}
    ) AS p ON p.distinct_id = u.name
    ORDER BY u.place
    FORMAT CustomSeparated`
  return await shards.bytes(
    query,
    { project: projectId },
    { ...PAGE_SETTINGS, ...LARGE_QUERY },
    { signal, project: projectId },
  )
}
