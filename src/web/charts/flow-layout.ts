import type { Paths } from '../../contract/questions.js'

export interface FlowNode {
  step: number
  event: string
  users: number
  x: number
  y: number
  height: number
}

export interface FlowLink {
  step: number
  from: string
  to: string
  users: number
  /** SVG path of the filled band */
  path: string
}

/** The layout of nodes and links, in SVG units. */
export interface Flow {
  width: number
  height: number
  nodes: FlowNode[]
  links: FlowLink[]
}

/** Wide enough for a label, so that bands do not cross the text. */
export const NODE_WIDTH = 116
const COLUMN_WIDTH = 176
const GAP = 8
/** Room for two lines of text, even for few users. */
const MIN_HEIGHT = 36
const COLUMN_HEIGHT = 260

/**
 * Lays out one column per step, in chronological order, and one band per link. Heights are proportional to users,
 * except that a node has at least the height of its label.
 * @param isBackward whether steps are counted from the end
 */
export function layOutFlow({ nodes, links }: Paths, isBackward: boolean): Flow {
  const last = Math.max(0, ...nodes.map(({ step }) => step))
  const toColumn = (step: number) => (isBackward ? last - step : step)
  const scale = COLUMN_HEIGHT / Math.max(1, ...sumSteps(nodes))
  const ends = new Map<number, number>()
  const placed = nodes.map((node) => {
    const column = toColumn(node.step)
    const y = ends.get(column) ?? 0
    const height = Math.max(MIN_HEIGHT, node.users * scale)
    ends.set(column, y + height + GAP)
    return { ...node, x: column * COLUMN_WIDTH, y, height }
  })
  const flow = { nodes: placed, links: layOutBands(links, placed, { isBackward, scale }) }
  return { width: last * COLUMN_WIDTH + NODE_WIDTH, height: Math.max(0, ...ends.values()), ...flow }
}

/** Sums the users of each step. */
function sumSteps(nodes: Paths['nodes']): number[] {
  const all: number[] = []
  for (const { step, users } of nodes) all[step] = (all[step] ?? 0) + users
  return all.map((sum) => sum ?? 0)
}

/**
 * Stacks the bands of a node on each of its sides. Users who passed a node twice are in two bands, so these are
 * scaled down to fit the node.
 */
function layOutBands(
  links: Paths['links'],
  nodes: FlowNode[],
  { isBackward, scale }: { isBackward: boolean; scale: number },
): FlowLink[] {
  const at = new Map(nodes.map((node) => [`${node.step} ${node.event}`, node]))
  const findNodes = ({ step, from, to }: Paths['links'][number]) => {
    const [left, right] = isBackward ? [step + 1, step] : [step, step + 1]
    return { source: at.get(`${left} ${from}`), target: at.get(`${right} ${to}`) }
  }
  const leaving = new Map<FlowNode, { users: number; used: number }>()
  const arriving = new Map<FlowNode, { users: number; used: number }>()
  for (const link of links) {
    const { source, target } = findNodes(link)
    if (source) ensureSide(leaving, source).users += link.users
    if (target) ensureSide(arriving, target).users += link.users
  }
  return links.flatMap((link) => {
    const { source, target } = findNodes(link)
    if (!source || !target) return []
    const from = takeSpan(ensureSide(leaving, source), source, link.users, scale)
    const to = takeSpan(ensureSide(arriving, target), target, link.users, scale)
    return [{ ...link, path: drawBand(source.x + NODE_WIDTH, from, target.x, to) }]
  })
}

type Side = { users: number; used: number }

function ensureSide(sides: Map<FlowNode, Side>, node: FlowNode): Side {
  const found = sides.get(node) ?? { users: 0, used: 0 }
  sides.set(node, found)
  return found
}

interface Span {
  y: number
  height: number
}

/** Takes the next free part of a side; together, the parts are vertically centred. */
function takeSpan(side: Side, node: FlowNode, users: number, scale: number): Span {
  const all = Math.min(node.height, node.users * scale)
  const height = (all * users) / Math.max(node.users, side.users, 1)
  const span = { y: node.y + (node.height - all) / 2 + side.used, height }
  side.used += height
  return span
}

function drawBand(left: number, from: Span, right: number, to: Span): string {
  const middle = (left + right) / 2
  const curve = (y1: number, x2: number, y2: number) => `C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`
  return [
    `M${left} ${from.y}`,
    curve(from.y, right, to.y),
    `L${right} ${to.y + to.height}`,
    curve(to.y + to.height, left, from.y + from.height),
    'Z',
  ].join('')
}
