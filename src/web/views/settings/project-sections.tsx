import { useState } from 'preact/hooks'
import type { ProjectSettings, SettingsChange } from '../../../contract/project-settings.js'
import { isSameJson } from '../../../contract/same-json.js'
import { isConflict } from '../../api/call.js'
import { changeProject, type Project, readProject } from '../../api/project.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { Failure, Loading } from '../../ui/notice.js'
import { UnsavedChangesGuard } from '../../ui/unsaved-changes.js'
import { OwnFields } from './own-fields.js'
import { PageFields } from './page-fields.js'
import { QuotaFields } from './quota-fields.js'
import { RetentionFields } from './retention-fields.js'
import type { OwnSetting, PageSetting } from './setting-text.js'
import { SettingsForm } from './settings-form.js'
import { Usage } from './usage.js'

/** Unsaved changes: those of a section, and those of a group of settings, whose fields are changed one by one. */
interface Drafts {
  own: Partial<Pick<ProjectSettings, OwnSetting>>
  pages: Partial<Pick<ProjectSettings, PageSetting>>
  page_fields: Partial<ProjectSettings['page_fields']>
  keep: Partial<ProjectSettings['keep']>
  quotas: Partial<ProjectSettings['quotas']>
}
type Section = Exclude<keyof Drafts, 'page_fields'>

const NO_DRAFTS: Drafts = { own: {}, pages: {}, page_fields: {}, keep: {}, quotas: {} }
const SAVED = 'Saved.'
const CONFLICT =
  'Someone else changed the settings in the meantime. They are shown now, with your changes. Save again to keep yours.'

/** The settings of the project, each section with its own button. @param onChanged called after each change */
export function ProjectSections({ onChanged }: { onChanged: () => void }) {
  const { value, error, isLoading, reload } = useLoaded('project', readProject)
  const [saved, setSaved] = useState<Project | null>(null)
  const [drafts, setDrafts] = useState(NO_DRAFTS)
  const [status, setStatus] = useState<{ section: Section; text: string } | null>(null)
  const project = saved && saved.revision >= (value?.revision ?? 0) ? saved : value
  if (!project) return error ? <Failure error={error} onRetry={reload} /> : <Loading what="the project" />

  const edit = (name: keyof Drafts) => (fields: object) => {
    setDrafts((before) => ({ ...before, [name]: { ...before[name], ...fields } }))
    setStatus(null)
  }
  const { own, pages, page_fields, keep, quotas } = listAllChanged(project, drafts)
  const ofPages = isEmpty(page_fields) ? pages : { ...pages, page_fields }
  const save = async (section: Section, change: SettingsChange) => {
    try {
      const next = await changeProject(change, project.revision)
      setSaved(next)
      // What was typed in the meantime stays.
      setDrafts((before) => listAllChanged(next, before))
      setStatus({ section, text: SAVED })
      onChanged()
    } catch (failure) {
      if (!isConflict(failure)) throw failure
      setStatus({ section, text: CONFLICT })
      reload()
    }
  }
  const describe = (section: Section) => (status?.section === section ? status.text : '')
  const isChanged = ![own, ofPages, keep, quotas].every(isEmpty)
  return (
    <div aria-busy={isLoading}>
      <SettingsForm title="Project" status={describe('own')} changed={own} onSave={() => save('own', own)}>
        <OwnFields id={project.id} settings={{ ...project, ...own }} onChange={edit('own')} />
      </SettingsForm>
      <SettingsForm
        title="Visits and pages"
        hint="This decides how events are read, so a change also applies to past events."
        status={describe('pages')}
        changed={ofPages}
        onSave={() => save('pages', ofPages)}
      >
        <PageFields
          settings={{ ...project, ...pages }}
          fields={{ ...project.page_fields, ...page_fields }}
          onChange={edit('pages')}
          onFieldsChange={edit('page_fields')}
        />
      </SettingsForm>
      <RetentionFields
        kept={project.keep}
        changed={keep}
        status={describe('keep')}
        onChange={edit('keep')}
        onSave={() => save('keep', { keep })}
      />
      <SettingsForm
        title="Quotas and usage"
        hint="A soft limit only warns; a hard one also refuses events. Days and months are those of UTC."
        status={describe('quotas')}
        changed={quotas}
        onSave={() => save('quotas', { quotas })}
      >
        <QuotaFields quotas={{ ...project.quotas, ...quotas }} onChange={edit('quotas')} />
      </SettingsForm>
      <Usage revision={project.revision} />
      {isChanged && <UnsavedChangesGuard what="project" />}
    </div>
  )
}

/** The parts of the drafts that differ from what is stored. */
function listAllChanged(project: Project, { own, pages, page_fields, keep, quotas }: Drafts): Drafts {
  return {
    own: listChanged(project, own),
    pages: listChanged(project, pages),
    page_fields: listChanged(project.page_fields, page_fields),
    keep: listChanged(project.keep, keep),
    quotas: listChanged(project.quotas, quotas),
  }
}

/** The fields of a draft that differ from what is stored. */
function listChanged<T extends object>(stored: T, draft: Partial<T>): Partial<T> {
  const differs = ([field, value]: [string, unknown]) => !isSameJson(value, stored[field as keyof T])
  return Object.fromEntries(Object.entries(draft).filter(differs)) as Partial<T>
}

function isEmpty(fields: object): boolean {
  return Object.keys(fields).length === 0
}
