import { type Figure, isSmallerBetter, ratioOf, type Spread, spreadOf, verdictOn } from './figures.js'
import type { Machine } from './machine.js'

/** A saved run, to compare others with. */
export interface Baseline {
  date: string
  machine: Machine
  rounds: number
  seconds: number
  figures: Figure[]
}

const HEAD = ['', 'figure', 'median', 'min–max', 'limit', 'ratio', 'min–max', 'target', 'stretch', '']
/** Indexes of the columns with text, which are left-aligned. */
const LEFT = new Set([0, 1, 4, 9])

export function describeRun({ machine, rounds, seconds, date }: Omit<Baseline, 'figures'>): string {
  const { cpu, cores, memoryGiB, system, node, redis, clickhouse, load, commit } = machine
  return (
    `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${system}; Node ${node}, Redis ${redis}, ClickHouse ${clickhouse}, ${load}; ` +
    `commit ${commit}; medians of ${rounds} rounds, stretches of ${seconds} s; ${date.slice(0, 10)}`
  )
}

/** Formats a run for a file: one figure per line, with six digits, which is more than the precision of a round. */
export function formatBaseline({ figures, ...run }: Baseline): string {
  const round = (_: string, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(6)) : value)
  const lines = figures.map((figure) => `    ${JSON.stringify(figure, round)}`)
  return `${JSON.stringify(run, null, 2).slice(0, -2)},\n  "figures": [\n${lines.join(',\n')}\n  ]\n}\n`
}

/** A table in columns, for a terminal. */
export function asText(figures: Figure[], baseline: Baseline | null): string {
  const rows = tableOf(figures, baseline)
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, i) => (LEFT.has(i) ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** The same table as Markdown. */
export function asMarkdown(figures: Figure[], baseline: Baseline | null): string {
  const [head = [], ...rows] = tableOf(figures, baseline)
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  const ruler = head.map((_, i) => (LEFT.has(i) ? '---' : '--:'))
  return [line(head), line(ruler), ...rows.map(line)].join('\n')
}

function tableOf(figures: Figure[], baseline: Baseline | null): string[][] {
  let last = ''
  const rows = figures.map((figure) => {
    const { benchmark, name, unit, over, goal } = figure
    const value = spreadOf(figure.values)
    const ratio = ratioOf(figure)
    const limit = figure.limits.length > 0 ? spreadOf(figure.limits).median : null
    const title = benchmark === last ? '' : benchmark
    last = benchmark
    const plus = goal?.plus === undefined ? '' : ` + ${goal.plus} ${unit}`
    const aim = (number: number) => (goal?.of === 'ratio' ? `${number} ×${plus}` : `${format(number)} ${unit}`)
    return [
      title,
      name,
      `${format(value.median)} ${unit}`,
      formatRange(value),
      limit === null ? '' : `${over} ${format(limit)}`,
      ratio ? `${format(ratio.median)} ×` : '',
      ratio ? formatRange(ratio) : '',
      goal ? aim(goal.target) : '',
      goal ? aim(goal.stretch) : '',
      verdictOn(figure) ?? '',
      ...(baseline ? [changeOf(figure, baseline)] : []),
    ]
  })
  return [[...HEAD, ...(baseline ? ['baseline → now'] : [])], ...rows]
}

/** The change of the ratio if there is one, because it depends less on the machine; otherwise of the value. */
function changeOf(figure: Figure, { figures }: Baseline): string {
  const before = figures.find(({ benchmark, name }) => benchmark === figure.benchmark && name === figure.name)
  if (!before) return 'new'
  const then = (ratioOf(before) ?? spreadOf(before.values)).median
  const now = (ratioOf(figure) ?? spreadOf(figure.values)).median
  const percent = (now / then - 1) * 100
  const direction = Math.abs(percent) < 1 ? 'same' : percent > 0 === isSmallerBetter(figure) ? 'worse' : 'better'
  return `${format(then)} → ${format(now)} (${percent >= 0 ? '+' : ''}${percent.toFixed(1)} %, ${direction})`
}

function formatRange({ min, max }: Spread): string {
  return `${format(min)}–${format(max)}`
}

/** Three significant digits, or the whole part if it is longer. */
function format(number: number): string {
  if (number >= 100) return Math.round(number).toLocaleString('en').replaceAll(',', ' ')
  return String(Number(number.toPrecision(3)))
}
