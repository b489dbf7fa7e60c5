const DOWNLOADS = /\.(7z|csv|dmg|docx?|exe|gz|iso|mp[34]|msi|pdf|pkg|pptx?|rar|txt|xlsx?|zip)$/i

type Track = (event: string, properties: object) => void

export interface ClickOptions {
  /** whether clicks on links to other sites are events, `$outbound_link` */
  outbound?: boolean | undefined
  /** whether clicks on links to files are events, `$download` */
  downloads?: boolean | undefined
}

/** Watches clicks and submitted forms for elements with `data-event` and, if the options say so, for links. */
export function watchClicks(track: Track, { outbound, downloads }: ClickOptions): void {
  /** the element that the current turn has counted a click on */
  let counted: Element | undefined
  const watch = (event: Event) => {
    if ((event as MouseEvent).button > 1) return
    // From the innermost element, which may be inside a web component, to the document and the window.
    const find = (selector: string) =>
      (event.composedPath() as Partial<Element>[]).find((node) => node.matches?.(selector))
    const isSubmit = event.type === 'submit'
    const element = find('[data-event]') as Element | undefined
    if (element && element !== counted && element.matches('form') === isSubmit) {
      track(element.getAttribute('data-event') as string, readProperties(element))
      // After a click on a label, the browser clicks its input in the same turn.
      counted = element
      setTimeout(() => (counted = undefined))
    }
    const link = find('a') as HTMLAnchorElement | undefined
    // Links of SVG have no `protocol`.
    if (isSubmit || !link || !/^http/.test(link.protocol)) return
    if (downloads && (link.hasAttribute('download') || DOWNLOADS.test(link.pathname))) {
      track('$download', { url: link.href })
    } else if (outbound && link.host !== location.host) track('$outbound_link', { url: link.href })
  }
  // Listen in the capture phase, because pages may stop the propagation of clicks.
  for (const type of ['click', 'auxclick', 'submit']) addEventListener(type, watch, true)
}

/** The attributes `data-event-*`, by the rest of their names. */
function readProperties(element: Element): object {
  const properties: Record<string, string> = {}
  for (const { name, value } of element.attributes) {
    if (name.startsWith('data-event-')) properties[name.slice(11)] = value
  }
  return properties
}
