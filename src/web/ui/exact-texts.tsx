import { CopyButton } from './copy.js'
import { Json } from './json.js'
import { ExactText } from './scrollable.js'

/** Properties twice: easy to read, and exactly as they are stored. */
export function ExactTexts({ text }: { text: string }) {
  return (
    <div class="texts">
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
        <ExactText label="Properties, exactly as stored" text={text} />
      </section>
    </div>
  )
}
