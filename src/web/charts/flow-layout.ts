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
  /** of an SVG path that is filled */
  path: string
}

/** Where nodes and links are, in the units of the drawing. */
export interface Flow {
  width: number
  height: number
  nodes: FlowNode[]
  links: FlowLink[]
}

/** A node has its label inside, so that no band runs behind it. */
export const NODE_WIDTH = 116
const COLUMN_WIDTH = 176
const GAP = 8
/** Two lines of text, however few users there are. */
const MIN_HEIGHT = 36
const COLUMN_HEIGHT = 260

/**
 * A column per step, in the order of time, and a band per link, as wide as its users are many. Nodes are, too, unless
 * there are too few for their labels.
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

/** Users of each step. */
function sumSteps(nodes: Paths['nodes']): number[] {
  const all: number[] = []
  for (const { step, users } of nodes) all[step] = (all[step] ?? 0) + users
  return all.map((sum) => sum ?? 0)
}

/**
 * The bands of a node lie one below the other on each of its sides. A user who came by twice is in two of them: then they
 * are thinner, so that they end where the node does.
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

/** The next free part of a side, all of which are in its middle. */
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
