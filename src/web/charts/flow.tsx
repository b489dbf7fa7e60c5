import { useContext, useMemo } from 'preact/hooks'
import { labelEvents } from '../../contract/labels.js'
import type { AnswerTo } from '../../contract/questions.js'
import { type DrillDown, labelNode } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatNumber, formatWindow } from '../lib/format.js'
import { Scrollable } from '../ui/scrollable.js'
import * as tableStyles from '../ui/table.module.css'
import * as textStyles from '../ui/text.module.css'
import * as styles from './flow.module.css'
import { type FlowLink, type FlowNode, layOutFlow, NODE_WIDTH } from './flow-layout.js'
import { DrillDownContext } from './number-button.js'

type PathsAnswer = AnswerTo<'paths'>

/** Maximum number of characters of a node's label. */
const MAX_LABEL = 16
const INSET = 8

/** The paths of users, step by step, as bands whose height is the number of users. */
export function Flow({ answer }: { answer: PathsAnswer }) {
  const { width, height, nodes, links } = useMemo(() => {
    return layOutFlow(answer.results, answer.query.end !== null)
  }, [answer])
  return (
    <>
      <Scrollable label="Flow of users" class={tableStyles.scroll}>
        {/* biome-ignore lint/a11y/useSemanticElements: SVG has no fieldset */}
        <svg
          class={styles.flow}
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="group"
          aria-label="Flow"
        >
          {links.map((link) => (
            <Link key={`${link.step} ${link.from}\n${link.to}`} link={link} of={answer.query} />
          ))}
          {nodes.map((node) => (
            <Node key={`${node.step} ${node.event}`} node={node} of={answer.query} />
          ))}
        </svg>
      </Scrollable>
      <p class={textStyles.hint}>{describeFlow(answer)}</p>
    </>
  )
}

/** Explains the numbers, because the numbers of a step may add up to more than the number of users. */
function describeFlow({ results: { links }, query }: PathsAnswer): string {
  const isBackward = query.end !== null
  const events = labelEvents((query.start ?? query.end)?.event ?? '')
  if (links.length === 0) {
    return `Nobody did anything else in the ${formatWindow(query.window)} ${isBackward ? 'before' : 'after'} “${escapeInvisible(events)}”.`
  }
  return 'Numbers are users. Someone who took several paths counts on each of them.'
}

/** The attributes that make an SVG shape a button. */
function useButtonProps(label: string, drillDown: DrillDown) {
  const onDrillDown = useContext(DrillDownContext)
  if (!onDrillDown) return {}
  return {
    role: 'button' as const,
    tabIndex: 0,
    'aria-label': label,
    onClick: () => onDrillDown(drillDown, label),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return
      event.preventDefault()
      onDrillDown(drillDown, label)
    },
  }
}

interface PartProps {
  of: PathsAnswer['query']
}

function Link({ link: { step, from, to, users, path }, of }: PartProps & { link: FlowLink }) {
  const label = `${escapeInvisible(labelNode(from))} to ${escapeInvisible(labelNode(to))}: ${formatNumber(users)} users`
  return (
    <g class={styles.link} {...useButtonProps(label, { of, cell: { step, from, to } })}>
      <title>{label}</title>
      <path d={path} />
    </g>
  )
}

function Node({ node, of }: PartProps & { node: FlowNode }) {
  const { step, event, users, x, y, height } = node
  const name = escapeInvisible(labelNode(event))
  const label = `${name}: ${formatNumber(users)} users`
  const short = name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name
  return (
    <g class={styles.node} {...useButtonProps(label, { of, cell: { step, event } })}>
      <title>{label}</title>
      <rect x={x} y={y} width={NODE_WIDTH} height={height} rx={4} />
      <svg x={x} y={y} width={NODE_WIDTH} height={height} aria-hidden="true">
        <text x={INSET} y={15}>
          {`${short} `}
        </text>
        <text x={INSET} y={29} class={styles.number}>
          {formatNumber(users)}
        </text>
      </svg>
    </g>
  )
}
