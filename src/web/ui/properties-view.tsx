import { Json, TextBlock } from './code.js'
import { CopyButton } from './copy-button.js'
import * as styles from './properties-view.module.css'

/** Properties in two forms: indented, and exactly as stored. */
export function PropertiesView({ text }: { text: string }) {
  return (
    <div class={styles.texts}>
      <section>
        <header>
          <h3>Properties, indented</h3>
        </header>
        <Json text={text} label="Properties, indented" />
      </section>
      <section>
        <header>
          <h3>Exactly as stored</h3>
          <CopyButton text={text} />
        </header>
        <TextBlock label="Properties, exactly as stored" text={text} />
      </section>
    </div>
  )
}
