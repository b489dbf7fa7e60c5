import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RowFormat } from '../../src/contract/formats.js'
import { type Bench, type Benchmark, eachRound, forTimes, get, WARM_UP_SECONDS } from '../benchmark.js'
import { load } from '../load.js'
import { directExport, directPage, PAGE, servicePage, servicePageAt } from '../pages.js'
import { type HttpRequest, type RequestList, writeRequests } from '../requests.js'
import { CLI, programFile, type Running, SECRET_KEY } from '../servers.js'
import { Store } from '../store.js'

const EVENTS = 5_000_000
const OVER_DIRECT = { of: 'ratio', target: 1.25, stretch: 1.1 } as const
const OF_DIRECT = { of: 'ratio', target: 0.75, stretch: 0.9 } as const
const FORMATS: readonly RowFormat[] = ['ndjson', 'csv', 'parquet']
const OVER_FIRST = { of: 'ratio', target: 1.2, stretch: 1.05 } as const

/** Pages of 10 000 events, one after the other: how long each takes, and whether later ones take longer. */
export const exportPages: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse)
  const { count, id } = await store.fill(bench.events(EVENTS))
  const last = Math.ceil(count / PAGE)
  const list = (request: HttpRequest) => writeRequests(servers.folder, [request])
  const time = async (url: string, requests: RequestList, seconds = forTimes(bench)) =>
    (await load(servers, { url, requests, connections: 1, seconds })).p50

  const depths = [...new Set([1, Math.min(100, last), last])]
  const pages = await Promise.all(
    depths.map(async (page) => ({
      page,
      byNumber: await list(servicePage(page)),
      byCursor: page === 1 ? null : await list(servicePageAt(await cursorOf(service, page))),
      direct: await list(await directPage(store, { offset: (page - 1) * PAGE })),
      directByCursor: await list(await directPage(store, { offset: 0, startAt: id((page - 1) * PAGE) })),
      figure: bench.figure(`page ${page} of ${last}`, { unit: 'ms', over: 'same query', goal: OVER_DIRECT }),
      figureByCursor:
        page === 1
          ? null
          : bench.figure(`page ${page} by cursor`, { unit: 'ms', over: 'same query', goal: OVER_DIRECT }),
    })),
  )
  const depth = bench.figure('last page by number', { unit: 'ms', over: 'page 1', goal: OVER_FIRST })
  const depthByCursor = bench.figure('last page by cursor', { unit: 'ms', over: 'page 1', goal: OVER_FIRST })

  for (const { byNumber, direct } of pages) {
    await time(store.url, direct, WARM_UP_SECONDS)
    await time(service.url, byNumber, WARM_UP_SECONDS)
  }
  await eachRound(bench, store, async () => {
    let firstMs = 0
    for (const { page, direct, directByCursor, byNumber, byCursor, figure, figureByCursor } of pages) {
      const limit = await time(store.url, direct)
      const ms = await time(service.url, byNumber)
      figure(ms, limit)
      if (page === 1) firstMs = ms
      if (byCursor) {
        const cursorLimit = await time(store.url, directByCursor)
        const cursorMs = await time(service.url, byCursor)
        figureByCursor?.(cursorMs, cursorLimit)
        if (page === last) depthByCursor(cursorMs, firstMs)
      }
      if (page === last) depth(ms, firstMs)
    }
  })
  await wholeProject(bench, service, store, count)
}

/** The `next` of the previous page. */
async function cursorOf({ url }: Running, page: number): Promise<string> {
  const { next } = await get<{ next: string }>(`${url}/public/events?limit=${PAGE}&page=${page - 1}`)
  return next
}

/**
 * An export of all events, compared with one response of ClickHouse with all of them: by the service, and by the
 * command compared with a response that is written to a file, too. If a virtual machine has returned its free memory to
 * the host, writing a file of 1 GB may take 2.4 s of system time instead of 0.16 (seen on one).
 */
async function wholeProject(bench: Bench, service: Running, store: Store, count: number): Promise<void> {
  const { servers } = bench
  const formats = await Promise.all(
    FORMATS.map(async (format) => ({
      format,
      direct: await writeRequests(servers.folder, [await directExport(store, format)]),
      call: await writeRequests(servers.folder, [{ method: 'GET', path: `/public/export?format=${format}` }]),
      called: bench.figure(`whole project as ${format}`, { unit: 'events/s', over: 'same query', goal: OF_DIRECT }),
      written: bench.figure(`tallyhouse export as ${format}`, {
        unit: 'events/s',
        over: 'same query to a file',
        goal: OF_DIRECT,
      }),
    })),
  )
  const download = async (url: string, { file }: RequestList, to: string[] = []) => {
    const args = [programFile('download'), url, file, '0', ...to]
    const output = await servers.run('the download', process.execPath, args)
    const { status, begin, seconds } = JSON.parse(output) as { status: number; begin: string; seconds: number }
    if (status !== 200) throw new Error(`the download was answered with ${status}: ${begin}`)
    return count / seconds
  }
  await eachRound(bench, store, async () => {
    for (const { format, direct, call, called, written } of formats) {
      called(await download(service.url, call), await download(store.url, direct))
      const file = join(servers.folder, 'download')
      const limit = await download(store.url, direct, [file])
      await rm(file)
      written(count / (await command(bench, service, format)), limit)
    }
  })
}

/** Exports by the command line to a file, or a folder of Parquet files. @returns s */
async function command({ servers }: Bench, { url }: Running, format: RowFormat): Promise<number> {
  const folder = await mkdtemp(join(servers.folder, 'export-'))
  const keyFile = join(folder, 'key')
  await writeFile(keyFile, SECRET_KEY)
  const startedAt = performance.now()
  const options = ['--url', url, '--key-file', keyFile, '--format', format, '--output', join(folder, 'events')]
  await servers.run('the export', process.execPath, [CLI, 'export', ...options])
  const seconds = (performance.now() - startedAt) / 1000
  await rm(folder, { recursive: true })
  return seconds
}
