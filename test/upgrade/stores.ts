import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync, gzipSync } from 'node:zlib'
import {
  PUBLIC_KEY,
  type RedisServer,
  type Scope,
  SECRET_KEY,
  startClickHouse,
  startRedis,
  temporaryFolder,
} from '../helper.js'
import type { Exchange } from './answers.js'
import type { Call } from './contents.js'

const run = promisify(execFile)

/** A data folder, and a dump of Redis with two lanes beside the folder of a ClickHouse. */
export const KINDS = ['embedded', 'servers'] as const
export type Kind = (typeof KINDS)[number]

/** The expected responses of a store of a version. */
export interface Expected {
  /** the day on which it was made, in UTC */
  day: string
  reads: Exchange[]
  /** requests that were sent before, with an `Idempotency-Key` or `insert_id`s */
  repeated: Exchange[]
}

const FOLDER = 'test/upgrade'

/** The versions with stores in the repository. */
export async function keptVersions(): Promise<string[]> {
  const entries = await readdir(FOLDER, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}

export function archiveOf(version: string, kind: Kind): string {
  return join(FOLDER, version, `${kind}.tar.gz`)
}

function expectedFile(version: string, kind: Kind): string {
  return join(FOLDER, version, `${kind}.json.gz`)
}

export async function readExpected(version: string, kind: Kind): Promise<Expected> {
  return JSON.parse(gunzipSync(await readFile(expectedFile(version, kind))).toString())
}

export async function writeExpected(version: string, kind: Kind, expected: Expected): Promise<void> {
  await writeFile(expectedFile(version, kind), gzipSync(JSON.stringify(expected, null, 2), { level: 9 }))
}

/** Packs a folder. The same files give nearly the same bytes. */
export async function pack(folder: string, archive: string): Promise<void> {
  const order = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner']
  await run('tar', [
    '--create',
    '--sparse',
    ...order,
    '--use-compress-program=gzip -9n',
    '--file',
    archive,
    '-C',
    folder,
    '.',
  ])
}

/** The folder of a new copy of a kept store. */
export async function unpack(t: Scope, archive: string): Promise<string> {
  const folder = await temporaryFolder(t)
  await run('tar', ['-xzf', archive, '-C', folder])
  return folder
}

interface OpenFolder {
  settings: NodeJS.ProcessEnv
  engine: Awaited<ReturnType<typeof startClickHouse>> | null
  redis: RedisServer | null
}

/** The settings of a service on the store in a folder, which may be empty. Starts its servers, if it has any. */
export async function openFolder(t: Scope, folder: string, kind: Kind): Promise<OpenFolder> {
  const keys = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY }
  if (kind === 'embedded') return { settings: { ...keys, DATA_DIR: join(folder, 'data') }, engine: null, redis: null }
  const dir = join(folder, 'redis')
  await mkdir(dir, { recursive: true })
  const [redis, engine] = await Promise.all([
    // With an append-only file, Redis would not read the dump.
    startRedis(t, ['--dir', dir, '--appendonly', 'no', '--save', '']),
    startClickHouse(t, join(folder, 'clickhouse')),
  ])
  return { settings: { ...keys, REDIS_URL: redis.url, CLICKHOUSE_URL: engine.url, LANES: '2' }, engine, redis }
}

export function callsOf(url: string): Call {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        'x-api-key': SECRET_KEY,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(headers as Record<string, string>),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return text
  }
}
