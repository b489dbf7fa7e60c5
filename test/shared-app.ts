import root from 'tap'
import { KEY_KINDS, type KeyKind, makeKey, storedKey } from '../src/keys/keys.js'
import { insertKeys } from '../src/store/api-keys.js'
import { openStore } from '../src/store/open.js'
import { type Client, clientOf, randomName, type Storage, settingsFor, startApp, until } from './helper.js'

/** The service as one project uses it. */
export interface Project extends Client {
  projectId: string
  keys: Record<KeyKind, string>
}

/** A service and its settings, with which a test can start another process's service on the same storage. */
interface SharedApp extends Client {
  env: NodeJS.ProcessEnv
}

const shared = new Map<Storage, Promise<SharedApp>>()

/**
 * A service with the default settings, shared by all tests of this process, because starting one takes as much CPU time
 * as hundreds of calls. It has no facts. Tests that depend on more than their own project, or stop the service, start
 * their own.
 */
export function sharedApp(storage: Storage = 'embedded'): Promise<SharedApp> {
  const started = shared.get(storage) ?? startShared(storage)
  shared.set(storage, started)
  return started
}

async function startShared(storage: Storage): Promise<SharedApp> {
  const env = { ...(await settingsFor(root, storage)), FACTS: 'off' }
  return { ...(await startApp(root, env)), env }
}

/**
 * A new project with a key of each kind, so that its tests see nothing of others.
 * @param client default: the service that all tests of this process share
 */
export async function newProject(client?: Client, projectId = randomName('project')): Promise<Project> {
  const { app, config } = client ?? (await sharedApp())
  const keys = Object.fromEntries(KEY_KINDS.map((kind) => [kind, makeKey(kind)])) as Record<KeyKind, string>
  const { clickhouse, close } = await openStore(config)
  await insertKeys(
    clickhouse,
    KEY_KINDS.map((kind) => storedKey(keys[kind], { projectId, kind })),
    Date.now(),
  )
  await close()
  const project = clientOf(app, config, keys)
  await until('the keys', async () => (await project.call('GET', '/public/key')).statusCode === 200)
  return { ...project, projectId, keys }
}
