import { useMemo } from 'preact/hooks'
import type { AnswerTo } from '../../contract/question-input.js'
import type { Cell } from '../../contract/questions.js'
import { nodeText } from '../lib/answer-table.js'
import { type FlowLink, type FlowNode, flowLayout, NODE_WIDTH } from '../lib/flow-layout.js'
import { numberText } from '../lib/format.js'
import type { OnCell } from './answer-view.js'

interface FlowProps {
  answer: AnswerTo<'paths'>
  onCell: OnCell | undefined
}

const MAX_LABEL = 22

/** What users did, step by step, as bands as wide as how many they are. */
export function Flow({ answer, onCell }: FlowProps) {
  const { width, height, nodes, links } = useMemo(() => {
    return flowLayout(answer.results, answer.query.end !== null)
  }, [answer])
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Flow of users">
      <svg class="flow" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Flow">
        {links.map((link) => (
          <Link key={`${link.step} ${link.from}\n${link.to}`} link={link} onCell={onCell} />
        ))}
        {nodes.map((node) => (
          <Node key={`${node.step} ${node.event}`} node={node} onCell={onCell} />
        ))}
      </svg>
    </div>
  )
}

/** What makes a shape a button. */
function asButton(label: string, cell: Cell, onCell: OnCell | undefined) {
  if (!onCell) return {}
  return {
    role: 'button' as const,
    tabIndex: 0,
    'aria-label': label,
    onClick: () => onCell(cell, label),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return
      event.preventDefault()
      onCell(cell, label)
    },
  }
}

function Link({ link: { step, from, to, users, path }, onCell }: { link: FlowLink; onCell: OnCell | undefined }) {
  const label = `${nodeText(from)} to ${nodeText(to)}: ${numberText(users)} users`
  return (
    <g class="flow-link" {...asButton(label, { step, from, to }, onCell)}>
      <title>{label}</title>
      <path d={path} />
    </g>
  )
}

function Node({ node, onCell }: { node: FlowNode; onCell: OnCell | undefined }) {
  const { step, event, users, x, y, height } = node
  const name = nodeText(event)
  const label = `${name}: ${numberText(users)} users`
  const short = name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name
  return (
    <g class="flow-node" {...asButton(label, { step, event }, onCell)}>
      <title>{label}</title>
      <rect x={x} y={y} width={NODE_WIDTH} height={height} rx={2} />
      <text x={x} y={y - 5}>
        {short} <tspan>{numberText(users)}</tspan>
      </text>
    </g>
  )
}
