import fc from 'fast-check'
import t from 'tap'
import { layOutFlow } from '../../../src/web/charts/flow-layout.js'

t.test('layOutFlow keeps bands within their nodes', (t) => {
  const users = fc.integer({ min: 0, max: 1000 })
  fc.assert(
    fc.property(
      fc.array(users, { minLength: 1, maxLength: 5 }),
      fc.array(users, { minLength: 1, maxLength: 5 }),
      (a, b) => {
        const nodes = [
          ...a.map((count, i) => ({ step: 0, event: `a${i}`, users: count })),
          ...b.map((count, i) => ({ step: 1, event: `b${i}`, users: count })),
        ]
        const links = a.flatMap((count, i) => {
          return b.map((other, k) => ({ step: 0, from: `a${i}`, to: `b${k}`, users: Math.min(count, other) }))
        })
        const flow = layOutFlow({ nodes, links }, false)
        t.equal(flow.links.length, links.length)
        for (const { path } of flow.links) {
          const ys = [...path.matchAll(/(?:M\S+|L\S+|C\S+ \S+ \S+ \S+ \S+) (\S+?)(?=[CLZ])/g)].map(([, y]) => Number(y))
          t.ok(ys.every((y) => y >= 0 && y <= flow.height))
        }
        const bottoms = flow.nodes.map(({ y, height }) => y + height)
        t.ok(Math.max(...bottoms) <= flow.height)
      },
    ),
  )
  const back = layOutFlow(
    {
      nodes: [
        { step: 0, event: 'end', users: 2 },
        { step: 1, event: 'before', users: 2 },
      ],
      links: [{ step: 0, from: 'before', to: 'end', users: 2 }],
    },
    true,
  )
  t.ok((back.nodes[1]?.x ?? 0) < (back.nodes[0]?.x ?? 0), 'time runs from left to right')
  t.equal(back.links.length, 1)
  t.end()
})
