import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { pino } from 'pino'
import { startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import type { Shards } from '../../src/clickhouse/shards.js'
import { PartsWatch } from '../../src/damage/parts-watch.js'
import { silent, until } from '../helper.js'

/** A part on the disk. */
export interface PartFolder {
  table: string
  name: string
  partition: string
  rows: number
  path: string
}

/** Uses the data of an embedded engine that is not running. */
export async function onEngine<T>(path: string, use: (shards: Shards) => Promise<T>): Promise<T> {
  const engine = await startEmbeddedClickHouse({ path, log: silent })
  const shards = openShards(engine.url, { log: silent } as never)
  try {
    return await use(shards)
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

/** The active parts of an engine, those of each partition in order. @param where a condition in SQL */
export async function readParts({ first }: Shards, where: string): Promise<PartFolder[]> {
  return await first.rows<PartFolder>(
    `SELECT table, name, partition_id AS partition, toUInt32(rows) AS rows, path FROM system.parts
     WHERE database = currentDatabase() AND active AND ${where} ORDER BY partition, min_block_number`,
  )
}

/** Records the existing parts, as a service does at its start. */
export async function recordParts(shards: Shards): Promise<void> {
  const watch = new PartsWatch({ shards, log: silent, isNoting: true })
  await watch.start(() => 0)
  await watch.close()
}

/** The active parts of a table of an engine that is not running. */
export async function partsOf(path: string, table = 'events'): Promise<PartFolder[]> {
  return await onEngine(path, async (shards) => {
    return await readParts(shards, `table = '${table}' AND NOT startsWith(partition_id, 'patch-')`)
  })
}

/** Changes some bytes in the middle of a file. */
export async function damage(file: string, at = 0.5, count = 8): Promise<void> {
  const bytes = await readFile(file)
  const start = Math.min(Math.floor(bytes.length * at), bytes.length - 1)
  for (let i = start; i < Math.min(start + count, bytes.length); i++) bytes.writeUInt8(bytes.readUInt8(i) ^ 0xff, i)
  await writeFile(file, bytes)
}

/** Kinds of damage to a part while the service is stopped. */
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
