import { useState } from 'preact/hooks'
import { Empty } from '../../ui/notice.js'
import type { ViewProps } from '../view-props.js'
import { AuditLog } from './audit-log.js'
import { Keys } from './keys.js'
import { ProjectSections } from './project-sections.js'

/** The settings of a project, its keys, and who changed what. */
export default function Settings({ access }: ViewProps) {
  const [changes, setChanges] = useState(0)
  const countChange = () => setChanges((before) => before + 1)
  return (
    <>
      <h1>Settings</h1>
      {access.keyKind === 'secret' ? (
        <>
          <ProjectSections onChanged={countChange} />
          <Keys onChanged={countChange} />
          <AuditLog changes={changes} />
        </>
      ) : (
        <Empty title="Settings need a secret key">
          <p>
            You are signed in with a read key. Sign in with a secret key to see and change the settings and the keys of{' '}
            <bdi>{access.project}</bdi>.
          </p>
        </Empty>
      )}
    </>
  )
}
