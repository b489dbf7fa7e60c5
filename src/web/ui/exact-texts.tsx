import { CopyButton } from './copy.js'
import { Json } from './json.js'

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
        <pre class="json" tabIndex={0} role="region" aria-label="Properties, exactly as stored">
          {text}
        </pre>
      </section>
    </div>
  )
}
