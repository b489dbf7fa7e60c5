import { useMemo } from 'preact/hooks'
import type { AnswerTo } from '../../contract/questions.js'
import { type Behind, nodeText } from '../lib/answer-table.js'
import { visible } from '../lib/escape-invisible.js'
import { numberText } from '../lib/format.js'
import { Scrollable } from '../ui/scrollable.js'
import { type FlowLink, type FlowNode, flowLayout, NODE_WIDTH } from './flow-layout.js'
import type { OnNumber } from './number-button.js'

interface FlowProps {
  answer: AnswerTo<'paths'>
  onNumber: OnNumber | undefined
}

/** What fits into a node. */
const MAX_LABEL = 16
const INSET = 8

/** What users did, step by step, as bands as wide as how many they are. */
export function Flow({ answer, onNumber }: FlowProps) {
  const { width, height, nodes, links } = useMemo(() => {
    return flowLayout(answer.results, answer.query.end !== null)
  }, [answer])
  return (
    <Scrollable label="Flow of users" class="scroll">
      {/* biome-ignore lint/a11y/useSemanticElements: a drawing has no fieldset */}
      <svg class="flow" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Flow">
        {links.map((link) => (
          <Link key={`${link.step} ${link.from}\n${link.to}`} link={link} of={answer.query} onNumber={onNumber} />
        ))}
        {nodes.map((node) => (
          <Node key={`${node.step} ${node.event}`} node={node} of={answer.query} onNumber={onNumber} />
        ))}
      </svg>
    </Scrollable>
  )
}

/** What makes a shape a button. */
function asButton(label: string, behind: Behind, onNumber: OnNumber | undefined) {
  if (!onNumber) return {}
  return {
    role: 'button' as const,
    tabIndex: 0,
    'aria-label': label,
    onClick: () => onNumber(behind, label),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return
      event.preventDefault()
      onNumber(behind, label)
    },
  }
}

interface PartProps {
  of: AnswerTo<'paths'>['query']
  onNumber: OnNumber | undefined
}

function Link({ link: { step, from, to, users, path }, of, onNumber }: PartProps & { link: FlowLink }) {
  const label = `${visible(nodeText(from))} to ${visible(nodeText(to))}: ${numberText(users)} users`
  return (
    <g class="flow-link" {...asButton(label, { of, cell: { step, from, to } }, onNumber)}>
      <title>{label}</title>
      <path d={path} />
    </g>
  )
}

function Node({ node, of, onNumber }: PartProps & { node: FlowNode }) {
  const { step, event, users, x, y, height } = node
  const name = visible(nodeText(event))
  const label = `${name}: ${numberText(users)} users`
  const short = name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name
  return (
    <g class="flow-node" {...asButton(label, { of, cell: { step, event } }, onNumber)}>
      <title>{label}</title>
      <rect x={x} y={y} width={NODE_WIDTH} height={height} rx={4} />
      <svg x={x} y={y} width={NODE_WIDTH} height={height} aria-hidden="true">
        <text x={INSET} y={15}>
          {`${short} `}
        </text>
        <text x={INSET} y={29} class="flow-number">
          {numberText(users)}
        </text>
      </svg>
    </g>
  )
}
