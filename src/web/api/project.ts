import type { SettingsChange } from '../../contract/project-settings.js'
import type { ProjectAnswer, ProjectUsage } from '../../contract/responses.js'
import { setProjectSettings } from '../lib/project-settings.js'
import { call } from './call.js'

export type Project = ProjectAnswer['project']
export type ExpiredData = NonNullable<ProjectAnswer['expired']>

const PATH = '/public/project'

/** Reads the settings of the project and their revision. @throws CallError */
export async function readProject(signal?: AbortSignal): Promise<Project> {
  return keepSettings(await call<ProjectAnswer>('GET', PATH, undefined, signal))
}

/**
 * @param revision the revision that is changed
 * @throws CallError `revision_conflict` if someone else changed the settings first
 */
export async function changeProject(change: SettingsChange, revision: number): Promise<Project> {
  return keepSettings(await call<ProjectAnswer>('PATCH', PATH, { ...change, revision }))
}

function keepSettings({ project }: ProjectAnswer): Project {
  setProjectSettings(project)
  return project
}

/** Counts what would expire after a change. @throws CallError */
export async function previewChange(change: SettingsChange, signal?: AbortSignal): Promise<ExpiredData> {
  const { expired } = await call<ProjectAnswer>('PATCH', PATH, { ...change, dry_run: true }, signal)
  if (!expired) throw new Error('The service has not said what would be removed.')
  return expired
}

/** Reads the usage of the last 30 days and the quotas. @throws CallError */
export async function readUsage(signal?: AbortSignal): Promise<ProjectUsage> {
  return await call<ProjectUsage>('GET', '/public/usage', undefined, signal)
}
