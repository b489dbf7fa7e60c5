import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Benchmark } from './benchmark.js'
import { ageing } from './benchmarks/ageing.js'
import { batch } from './benchmarks/batch.js'
import { direct } from './benchmarks/direct.js'
import { edit } from './benchmarks/edit.js'
import { exportPages } from './benchmarks/export.js'
import { facts } from './benchmarks/facts.js'
import { fairness } from './benchmarks/fairness.js'
import { growth } from './benchmarks/growth.js'
import { identified } from './benchmarks/identified.js'
import { importFile } from './benchmarks/import.js'
import { lists } from './benchmarks/lists.js'
import { live } from './benchmarks/live.js'
import { profile } from './benchmarks/profile.js'
import { questions } from './benchmarks/questions.js'
import { scale } from './benchmarks/scale.js'
import { sessions } from './benchmarks/sessions.js'
import { start } from './benchmarks/start.js'
import { track } from './benchmarks/track.js'
import { vendors } from './benchmarks/vendors.js'
import { Figures } from './figures.js'
import { describeMachine } from './machine.js'
import { asMarkdown, asText, type Baseline, describeRun, formatBaseline } from './report.js'
import { Servers } from './servers.js'
import { Store } from './store.js'

const BENCHMARKS: Record<string, Benchmark> = {
  track,
  batch,
  identified,
  import: importFile,
  export: exportPages,
  edit,
  profile,
  lists,
  live,
  growth,
  ageing,
  fairness,
  start,
  questions,
  facts,
  sessions,
  direct,
  scale,
  vendors,
}
const BASELINE = fileURLToPath(new URL('../../baseline.json', import.meta.url))

const USAGE = `npm run bench -- [${Object.keys(BENCHMARKS).join('|')} …] [options]

  --rounds N            rounds of each benchmark (5)
  --seconds N           whole seconds of each measurement (2)
  --events N            events stored beforehand in export, edit, growth, ageing, fairness, questions, facts, sessions and start (5, 10, 20, 20, 5, 20, 20, 5 and 20 million), or in the file of import (3 million)
  --large               questions, facts and start over 100 million events
  --machines N,N…       how many machines scale compares (1,2,3,4,6)
  --share N             of a core for each machine, in percent (20)
  --cells               gives each machine its own store, so that they share nothing
  --journal redis|lmdb  the journal of Tallyhouse (redis)
  --set NAME=VALUE      a setting for Tallyhouse; may be repeated
  --cpu-prof            writes a CPU profile of Tallyhouse into bench/data
  --markdown            prints the table as Markdown, for docs/benchmarks.md
  --compare             shows the change against bench/baseline.json
  --save                saves the results to bench/baseline.json`

/** The open servers; a signal closes them. */
let servers: Servers | undefined
let endedBy: NodeJS.Signals | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    endedBy = signal
    servers?.close().finally(() => process.exit(1))
    if (!servers) process.exit(1)
  })
}

try {
  await main(readArguments(process.argv.slice(2)))
} catch (error) {
  if (!endedBy) console.error(error)
  await servers?.close()
  process.exit(1)
}

async function main({ names, options }: ReturnType<typeof readArguments>): Promise<void> {
  if (options.help) return console.log(USAGE)
  const { rounds, seconds, journal, settings } = options
  const baseline = options.compare ? await readBaseline() : null
  const figures = new Figures()
  servers = await Servers.open({ journal, settings, cpuProfile: false })
  const machine = await describeMachine(new Store(await servers.clickhouse()))
  await servers.close()

  const failed: string[] = []
  for (const name of names) {
    const startedAt = performance.now()
    servers = await Servers.open({ journal, settings, cpuProfile: options.cpuProfile })
    try {
      await BENCHMARKS[name]?.({
        servers,
        rounds,
        seconds,
        machines: options.plan,
        events: (usual) => options.events ?? usual,
        isLarge: options.large,
        figure: (title, figure) => figures.open(name, title, figure),
        note: (text) => figures.notes.push(text),
        round: (number) => progress(`${name}: round ${number} of ${rounds}`),
      })
    } catch (error) {
      if (endedBy) throw error
      console.error(`\n${name} failed.\n${servers.output()}`, error)
      figures.dropEmpty()
      failed.push(name)
    } finally {
      await servers.close()
      servers = undefined
    }
    progress(`${name}: ${Math.round((performance.now() - startedAt) / 1000)} s\n`)
  }

  const run = { date: new Date().toISOString(), machine, rounds, seconds }
  const table = options.markdown ? asMarkdown : asText
  console.log(`\n${describeRun(run)}\n`)
  console.log(table(figures.all, baseline))
  for (const note of figures.notes) console.log(`\n${note}`)
  if (baseline) console.log(`\nBaseline: ${describeRun(baseline)}`)
  const whole = figures.all.filter(({ benchmark }) => !failed.includes(benchmark))
  if (options.save) await keep({ ...run, figures: whole })
  if (failed.length > 0) throw new Error(`These benchmarks failed: ${failed.join(', ')}.`)
}

/** Reads the arguments. If they are wrong, it prints why and exits with 2. */
function readArguments(args: string[]) {
  try {
    return parseArguments(args)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(2)
  }
}

function parseArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      events: { type: 'string' },
      machines: { type: 'string', default: '1,2,3,4,6' },
      share: { type: 'string', default: '20' },
      cells: { type: 'boolean', default: false },
      large: { type: 'boolean', default: false },
      journal: { type: 'string', default: 'redis' },
      set: { type: 'string', multiple: true, default: [] },
      'cpu-prof': { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      compare: { type: 'boolean', default: false },
      save: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  for (const name of positionals) {
    if (!Object.hasOwn(BENCHMARKS, name)) throw new Error(`There is no benchmark ${name}.\n\n${USAGE}`)
  }
  const { journal } = values
  if (journal !== 'redis' && journal !== 'lmdb') throw new Error(`--journal must be redis or lmdb, not ${journal}.`)
  return {
    names: positionals.length > 0 ? positionals : Object.keys(BENCHMARKS),
    options: {
      ...values,
      journal,
      rounds: wholeNumber('--rounds', values.rounds),
      seconds: wholeNumber('--seconds', values.seconds),
      events: values.events === undefined ? undefined : wholeNumber('--events', values.events),
      plan: {
        counts: values.machines.split(',').map((count) => wholeNumber('--machines', count)),
        share: wholeNumber('--share', values.share) / 100,
        layout: values.cells ? 'cells' : 'lanes',
      },
      settings: Object.fromEntries(values.set.map((pair) => pair.split(/=(.*)/s).slice(0, 2) as [string, string])),
      cpuProfile: values['cpu-prof'],
    },
  } as const
}

function wholeNumber(name: string, text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${name} must be a whole number of at least 1, not ${text}.`)
  return Number(text)
}

async function readBaseline(): Promise<Baseline> {
  if (!existsSync(BASELINE)) throw new Error(`${BASELINE} is missing; --save creates it.`)
  return JSON.parse(await readFile(BASELINE, 'utf8')) as Baseline
}

/** Writes the baseline. Results that this run has not measured are kept if the file is from this machine. */
async function keep(run: Baseline): Promise<void> {
  const measured = new Set(run.figures.map(({ benchmark }) => benchmark))
  const before = existsSync(BASELINE) ? await readBaseline() : null
  const isSameMachine = before?.machine.cpu === run.machine.cpu && before.machine.cores === run.machine.cores
  const kept = isSameMachine ? before.figures.filter(({ benchmark }) => !measured.has(benchmark)) : []
  await writeFile(BASELINE, formatBaseline({ ...run, figures: [...kept, ...run.figures] }))
  console.log(`\nSaved to ${BASELINE}.`)
}

function progress(text: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : text.endsWith('\n') ? text : '')
}
