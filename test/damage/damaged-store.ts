import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { pino } from 'pino'
import { startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { silent, until } from '../helper.js'

/** A part on the disk. */
export interface PartFolder {
  table: string
  name: string
  partition: string
  rows: number
  path: string
}

/** Runs queries on the data of an embedded engine that is not running; `settings` are those of the query. */
export async function onEngine<T>(
  path: string,
  use: (
    query: (sql: string) => Promise<Record<string, string>[]>,
    command: (sql: string) => Promise<void>,
  ) => Promise<T>,
): Promise<T> {
  const engine = await startEmbeddedClickHouse({ path, log: silent })
  const shards = openShards(engine.url, { log: silent } as never)
  try {
    return await use(
      (sql) => shards.first.rows<Record<string, string>>(sql),
      (sql) => shards.first.command(sql),
    )
  } finally {
    await shards.close()
    await engine.close()
  }
}

/**
 * Waits until the running service has recorded its parts of events. One that stops does so only if that takes a second or
 * so.
 * @param url of its ClickHouse
 */
export async function untilRecorded(url: string): Promise<void> {
  const shards = openShards(url, { log: silent } as never)
  await until('recorded parts', async () => {
    const rows = await shards.first.rows(
      `SELECT 1 FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'
       AND name NOT IN (SELECT arrayJoin(parts.name) FROM known_parts FINAL WHERE table_name = 'events')`,
    )
    return rows.length === 0
  })
  await shards.close()
}

/** The active parts of a table of an engine that is not running. */
export async function partsOf(path: string, table = 'events'): Promise<PartFolder[]> {
  return await onEngine(path, async (query) => {
    const rows = await query(
      `SELECT table, name, partition_id AS partition, rows, path FROM system.parts
       WHERE database = currentDatabase() AND table = '${table}' AND active AND NOT startsWith(partition_id, 'patch-')
       ORDER BY name`,
    )
    return rows.map(({ table = '', name = '', partition = '', rows, path = '' }) => {
      return { table, name, partition, rows: Number(rows), path }
    })
  })
}

/** Changes some bytes in the middle of a file. */
export async function damage(file: string, at = 0.5, count = 8): Promise<void> {
  const bytes = await readFile(file)
  const start = Math.min(Math.floor(bytes.length * at), bytes.length - 1)
  for (let i = start; i < Math.min(start + count, bytes.length); i++) bytes.writeUInt8(bytes.readUInt8(i) ^ 0xff, i)
  await writeFile(file, bytes)
}

/** What can happen to a part while the service is stopped. */
export const ACCIDENTS: [name: string, happen: (part: PartFolder) => Promise<unknown>][] = [
  ['whose folder is gone', ({ path }) => rm(path, { recursive: true })],
  ['with a missing file', ({ path }) => rm(join(path, 'data.bin'))],
  ['with damaged checksums', ({ path }) => damage(join(path, 'checksums.txt'))],
  ['with a damaged count', ({ path }) => writeFile(join(path, 'count.txt'), 'x')],
  ['with damaged columns', ({ path }) => writeFile(join(path, 'columns.txt'), '')],
  [
    'without any files',
    async ({ path }) => {
      for (const name of await readdir(path)) await rm(join(path, name))
    },
  ],
]

/** A log that records its lines. */
export function keepLog(): { log: FastifyBaseLogger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  return { log: log as unknown as FastifyBaseLogger, lines }
}
