import t from 'tap'
import { Backlog } from '../../src/questions/backlog.js'
import { until } from '../helper.js'

t.test('projects take turns, however many tasks one of them has', async (t) => {
  const backlog = new Backlog({ info: (details: unknown) => t.fail(`${details}`) })
  const done: string[] = []
  const add = (projectId: string) => backlog.add(projectId, async () => void done.push(projectId))
  const added = Array.from({ length: 150 }, () => add('many'))
  t.equal(added.filter(Boolean).length, 100, 'too many of one project are dropped')
  for (const projectId of ['few', 'other', 'few']) t.ok(add(projectId), 'but none of another')
  await backlog.settled()
  t.strictSame(done.slice(0, 5), ['many', 'few', 'other', 'many', 'few'])
  t.equal(done.length, 103)
})

t.test('a project that always adds tasks does not keep the others from running', async (t) => {
  const backlog = new Backlog({ info: (details: unknown) => t.fail(`${details}`) })
  let added = 0
  const addedBefore: number[] = []
  for (let i = 0; i < 3; i++) backlog.add('patient', async () => void addedBefore.push(added))
  const adding = setInterval(() => {
    added++
    backlog.add('busy', async () => undefined)
  }, 50)
  t.teardown(() => clearInterval(adding))
  await until('the tasks', () => addedBefore.length === 3)
  t.equal(new Set(addedBefore).size, 1, 'a task does not wait for a pause again')
})
