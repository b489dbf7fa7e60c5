import type { Client } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { newProject, type Project } from '../shared-app.js'
import { type Ended, runCommand } from './command-line.js'

export interface ProjectOfCommands extends Project {
  url: string
  /** with the secret key */
  env: NodeJS.ProcessEnv
  /** a command that calls the service, unless `args` has another `--url`, in this process */
  run(args: string[], stdin?: string | Buffer): Promise<Ended>
}

/**
 * A new project, and the commands with its key.
 * @param service default: the one that all tests of this process share
 */
export async function projectOfCommands(service?: Client): Promise<ProjectOfCommands> {
  const project = await newProject(service)
  const url = await addressOf(project)
  const env = { SECRET_KEY: project.keys.secret }
  const run: ProjectOfCommands['run'] = (args, stdin) =>
    runCommand(args.includes('--url') ? args : [...args, '--url', url], stdin, env)
  return { ...project, url, env, run }
}
