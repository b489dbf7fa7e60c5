import { randomUUID } from 'node:crypto'
import { StoreUnreachableError } from '../clickhouse/errors.js'
import { literal } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { deduplicateBy } from './insert.js'

/** The settings of a project as they are stored. */
export interface StoredSettings {
  projectId: string
  /** JSON */
  text: string
  /** 0 if the project has never had any */
  revision: number
  /** epoch ms */
  updatedAt: number
}

interface Row {
  project_id: string
  settings: string
  version: string
  updated_at: string
}

/** The settings of all projects that have any. */
export async function readAllSettings(shards: Shards): Promise<StoredSettings[]> {
  return await shards.onFirst(async (clickhouse) => {
    const rows = await clickhouse.rows<Row>('SELECT project_id, settings, version, updated_at FROM projects FINAL')
    return rows.map(toStored)
  })
}

/** The settings of one project, read from the store now. */
export async function readSettings(shards: Shards, projectId: string): Promise<StoredSettings> {
  return await shards.onFirst(async (clickhouse) => {
    const [row] = await clickhouse.rows<Row>(
      'SELECT project_id, settings, version, updated_at FROM projects FINAL WHERE project_id = {project:String}',
      { project: projectId },
    )
    return row ? toStored(row) : { projectId, text: '{}', revision: 0, updatedAt: 0 }
  })
}

/** How many lost revisions a change skips at most. */
const MAX_LOST = 100

/**
 * Replaces the settings of a project, unless they were replaced after they were read.
 * @param next `revision` is the revision to replace
 * @returns the new revision; null if another change came first
 */
export async function replaceSettings(shards: Shards, next: StoredSettings): Promise<number | null> {
  const { projectId, text, updatedAt } = next
  const writeId = randomUUID()
  return await shards.onFirst(async (clickhouse) => {
    for (let { revision } = next; revision < next.revision + MAX_LOST; revision++) {
      const version = revision + 1
      // The token names the row that this one replaces, so ClickHouse stores only one of several concurrent changes.
      await clickhouse.command(
        `INSERT INTO projects (project_id, settings, updated_at, write_id, version)
         SELECT {project:String}, ${literal(text)}, {updatedAt:Int64}, {writeId:UUID}, {version:UInt64}`,
        { project: projectId, updatedAt, writeId, version },
        deduplicateBy(JSON.stringify(['settings', projectId, revision])),
      )
      const rows = await clickhouse.rows<{ writer: string; at: string }>(
        `SELECT toString(write_id) AS writer, toString(version) AS at FROM projects
         WHERE project_id = {project:String} AND version >= {version:UInt64}`,
        { project: projectId, version },
      )
      // If our row was merged into a later one, that row includes the change, or the change was refused.
      if (rows.some(({ writer, at }) => writer === writeId && Number(at) === version)) return version
      if (rows.length > 0) return null
      // ClickHouse has lost the row with this version, but not its token.
    }
    throw new StoreUnreachableError('ClickHouse does not show the settings that it has stored.')
  })
}

function toStored({ project_id, settings, version, updated_at }: Row): StoredSettings {
  return { projectId: project_id, text: settings, revision: Number(version), updatedAt: Number(updated_at) }
}
