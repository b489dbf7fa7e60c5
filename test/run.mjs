// Runs the tests, compiled: all but the fault tests, or those of the files and folders that are named. Each file is a program
// of its own, except that some share what takes long to start: tap's runner would load hooks into each, which cost as much CPU
// time as the service. node:test's runner holds back what files print until all before them have ended. What a file prints is
// shown if it fails.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { buildTests } from './build.mjs'

const USAGE = `usage: node test/run.mjs [file or folder …] [options]

  --jobs N      files at a time (6)
  --grep TEXT   only the tests whose names have this text, or match it if it is /a regular expression/
  --seed N      different cases for the property tests; "random" for different ones in each run
  --save FILE   writes the names of the failed files, one per line
  --cpu         measures the CPU time of each file and its children, whatever else the machine does`

/** The files that wait longest start first; otherwise everything would wait for them at the end. */
const FIRST = ['test/web/', 'test/system/', 'test/questions/', 'test/routes/']
/** For a whole file, and for each wait for a subtest, on a busy machine. */
const LIMIT_SECONDS = 1_200
/**
 * In memory. The tests' stores write a lot that is deleted a second later: on a disk, that takes a tenth of the CPU
 * time.
 */
const MEMORY = '/dev/shm'
/** Tests of files on a real disk, and of files damaged by a fault. */
const OF_DISK = ['test/delivery/', 'test/journal/']
/** This much must be free there, and in the machine's memory. */
const MEMORY_BYTES = 2 * 1024 ** 3
/**
 * Files that share programs, and the number of programs: loading the service takes a second of CPU time. The page's
 * files also share a browser and a service, which take half of their CPU time to start.
 */
const TOGETHER = [
  { files: /^test\/web\/[^/]+$/, programs: 2, startsShared: true },
  { files: /^test\/web\//, programs: 1 },
  { files: /^test\/(?:bench|cli|client|mcp)\//, programs: 2 },
  { files: /^test\/routes\/vendors\//, programs: 1 },
  { files: /^test\/routes\//, programs: 2 },
  { files: /^test\/journal\//, programs: 2 },
  { files: /^test\/http\//, programs: 1, startsShared: true },
  { files: /^test\/live\//, programs: 1 },
  { files: /^test\/(?:ingest|lanes|store)\//, programs: 2 },
  { files: /^test\/clickhouse\/[^/]+$/, programs: 1 },
  { files: /^test\/questions\//, programs: 2 },
  { files: /^test\/(?:projects|users)\//, programs: 1 },
  { files: /^test\/damage\//, programs: 2 },
  { files: /^test\/facts\//, programs: 2 },
  { files: /^test\/(?:context|reads|states)\//, programs: 1 },
  // The TypeScript compiler would leave a heap that slows down the files after it.
  { files: /^test\/system\/(?!conversions)/, programs: 2 },
  // The test of the thread's load needs a thread that was idle before.
  { files: /^test\/(?:contract|json|keys|lib(?!\/thread-load)|metrics|model|vendors)\//, programs: 1 },
]
/**
 * Whatever a file starts before its tests runs until the program ends, so such a file gets its own program, unless all
 * its files share what they start, as the page's do, or it costs next to nothing.
 */
const STARTS = /^(?:const|let) .*= await (?!emptyClickHouse|startRedis|temporaryFolder)|^t\.(?:before|beforeEach)\(/m
/** From this number of files on, a ready-made store saves more than it costs. */
const ENOUGH_FILES = 4
/** Runs a command, and prints how many seconds of CPU time it and its children have used. */
const MEASURE = `TIMEFORMAT='# cpu: %U %S'; time "$0" "$@"`
/** How long to wait for the last output of a file that failed, ms. */
const DRAIN_MS = 2_000

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    // Many tests wait, so four leave a quarter of two cores idle.
    jobs: { type: 'string', default: '6' },
    grep: { type: 'string' },
    seed: { type: 'string' },
    save: { type: 'string' },
    cpu: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const jobs = Number(values.jobs)
const seed = values.seed === 'random' ? randomInt(2 ** 31) : values.seed && Number(values.seed)
if (values.help || !(jobs >= 1) || Number.isNaN(seed)) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}
const files =
  positionals.length > 0
    ? positionals.flatMap(testsIn)
    : testsIn('test').filter((file) => !file.startsWith('test/delivery/'))
if (files.length === 0) {
  console.error(`There are no tests in ${positionals.join(', ')}.`)
  process.exit(2)
}
await buildTests()
const onDisk = mkdtempSync(join(tmpdir(), 'tallyhouse-'))
const inMemory = hasMemory() ? mkdtempSync(join(MEMORY, 'tallyhouse-')) : onDisk
process.on('exit', () => {
  for (const folder of [onDisk, inMemory]) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1))
const store = await emptyStore()
files.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
process.exitCode = await runAll(files)

/**
 * @param {string} path of a file or a folder
 * @returns {string[]} from the root of the repository
 */
function testsIn(path) {
  const entry = statSync(path, { throwIfNoEntry: false })
  if (!entry) {
    console.error(`${path} does not exist. Name files or folders, such as test/journal.`)
    process.exit(2)
  }
  if (!entry.isDirectory()) return [relative('.', path)]
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(path, name))
}

function hasMemory() {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return Math.min(bavail * bsize, freemem()) >= MEMORY_BYTES
  } catch {
    return false
  }
}

/** The setting that names a migrated store to `test/empty-store.ts`; a few files run as well without one. */
async function emptyStore() {
  if (files.length < ENOUGH_FILES) return {}
  const path = join(inMemory, 'empty-store')
  const { makeEmptyStore } = await import('../build/test/empty-store.js')
  await makeEmptyStore(path)
  return { EMPTY_STORE: path }
}

/** @param {string} file */
function rank(file) {
  const at = FIRST.findIndex((folder) => file.startsWith(folder))
  return at < 0 ? FIRST.length : at
}

/**
 * Prints a line for each file as it ends, as TAP.
 * @param {string[]} files
 * @returns {Promise<number>} the exit code
 */
async function runAll(files) {
  const began = performance.now()
  const failed = []
  const waiting = programs(files)
  let done = 0
  let cpuTotal = 0
  console.log(`TAP version 14\n1..${files.length}`)
  if (seed !== undefined) console.log(`# properties have the seed ${seed}`)
  const runner = async () => {
    for (let program = waiting.shift(); program; program = waiting.shift()) {
      const { results, cpuSeconds } = await runProgram(program)
      cpuTotal += cpuSeconds
      for (const { file, output, end, seconds } of results) {
        if (end !== 0) {
          failed.push(file)
          console.log(`# Subtest: ${file}\n${output.replace(/^(?=.)/gm, '    ')}\n    # it ended with ${end}`)
        }
        const cpu = program.length === 1 ? formatCpu(cpuSeconds) : ''
        console.log(`${end === 0 ? 'ok' : 'not ok'} ${++done} - ${file} # time=${seconds.toFixed(1)}s${cpu}`)
      }
      if (program.length > 1) console.log(`# ${results.length} files together${formatCpu(cpuSeconds)}`)
      // The files that did not run.
      const left = program.filter((file) => !results.some((result) => result.file === file))
      waiting.unshift(...left.map((file) => [file]))
    }
  }
  await Promise.all(Array.from({ length: jobs }, runner))
  const seconds = Math.round((performance.now() - began) / 1000)
  console.log(
    `# ${files.length - failed.length} of ${files.length} test files passed in ${seconds} s${formatCpu(cpuTotal)}`,
  )
  for (const file of failed) console.log(`# failed: ${file}`)
  if (values.save !== undefined) writeFileSync(values.save, failed.map((file) => `${file}\n`).join(''))
  return failed.length > 0 ? 1 : 0
}

/**
 * @param {string[]} files
 * @returns {string[][]} the files of each program
 */
function programs(files) {
  // With a pattern, the tests that separate the files are left out.
  if (values.grep !== undefined) return files.map((file) => [file])
  const left = new Set(files)
  const shared = TOGETHER.flatMap(({ files: pattern, programs, startsShared }) => {
    const together = [...left].filter(
      (file) => pattern.test(file) && (startsShared || !STARTS.test(readFileSync(file, 'utf8'))),
    )
    for (const file of together) left.delete(file)
    return Array.from({ length: programs }, (_, part) => together.filter((_, i) => i % programs === part))
  })
  return [...shared.filter((part) => part.length > 0), ...Array.from(left, (file) => [file])]
}

/**
 * Runs one file, or several in one process.
 * @param {string[]} files
 */
async function runProgram(files) {
  const [file = ''] = files
  const { output, end, seconds, cpuSeconds } = await runFiles(files)
  const results = files.length === 1 ? [{ file, output, end, seconds }] : splitResults(files, output, end)
  return { results, cpuSeconds }
}

/**
 * The results of the files that a program has run; the file during which it ended has failed.
 * @param {string[]} files
 * @param {string} output
 * @param {number | string | null} end of the program
 */
function splitResults(files, output, end) {
  const starts = files.map((file) => output.indexOf(`# Subtest: ${compiledPath(file)}\n`))
  const hasPlan = /^1\.\.\d+$/m.test(output)
  const results = []
  for (const [i, file] of files.entries()) {
    const isLast = i === files.length - 1
    if (starts[i] < 0) break
    const isWhole = isLast ? hasPlan : starts[i + 1] >= 0
    const part = output.slice(starts[i], isWhole && !isLast ? starts[i + 1] : undefined)
    const lines = [...part.matchAll(/^(not ok|ok) \d+ .*?(?:# time=([\d.]+)ms)?\s*\{?$/gm)]
    const isOk = isWhole && lines.length > 1 && lines.every(([, verdict]) => verdict === 'ok')
    const ms = lines.reduce((sum, [, , time]) => sum + Number(time ?? 0), 0)
    results.push({ file, output: part, end: isOk ? 0 : end || 1, seconds: ms / 1000 })
  }
  // An error after the last test.
  const last = results.at(-1)
  if (last && results.every((result) => result.end === 0)) last.end = end
  return results
}

/** @param {string} file */
function compiledPath(file) {
  return `build/${file.replace(/\.ts$/, '.js')}`
}

/** @param {string[]} files that one process runs */
async function runFiles(files) {
  const [file = ''] = files
  const began = performance.now()
  const limitSeconds = LIMIT_SECONDS * files.length
  const compiled = files.map(compiledPath)
  // For named files, failures show source lines: loading the source maps takes each process a tenth of a second or
  // more.
  const maps = positionals.length > 0 ? ['--enable-source-maps'] : []
  // `fetch` is WebAssembly, which each process would compile twice.
  const several = files.length > 1 ? ['build/test/together.js'] : []
  const command = [process.execPath, ...maps, '--liftoff-only', ...several, ...compiled]
  const [program, ...args] = values.cpu ? ['bash', '-c', MEASURE, ...command] : command
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      // It belongs to this machine, not to the tests: each process would read all its certificates before it begins.
      NODE_EXTRA_CA_CERTS: undefined,
      ...store,
      TMPDIR: OF_DISK.some((room) => file.startsWith(room)) ? onDisk : inMemory,
      ...(!file.startsWith('test/delivery/') && { TEST_PROGRAMS: 'build/src' }),
      TAP_TIMEOUT: String(limitSeconds),
      ...(seed !== undefined && { PROPERTY_SEED: String(seed) }),
      ...(values.grep !== undefined && { TAP_GREP: values.grep }),
    },
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), limitSeconds * 1000)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  const closed = once(child, 'close')
  const [code, signal] = await once(child, 'exit')
  clearTimeout(timer)
  // A process that the test has left running may hold the pipes.
  if (code !== 0 || values.cpu || files.length > 1) await Promise.race([closed, wait(DRAIN_MS)])
  child.stdout.destroy()
  child.stderr.destroy()
  const [, user, system] = /^# cpu: (\S+) (\S+)$/m.exec(output) ?? []
  return {
    output,
    end: code ?? signal,
    seconds: (performance.now() - began) / 1000,
    cpuSeconds: Number(user ?? 0) + Number(system ?? 0),
  }
}

/** @param {number} seconds */
function formatCpu(seconds) {
  return values.cpu ? `, cpu=${seconds.toFixed(1)}s` : ''
}
