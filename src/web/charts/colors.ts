/** The colours of the page as a canvas takes them: variables and their light and dark halves are for CSS only. */
export interface Colors {
  ink: string
  faint: string
  line: string
  /** of a line, by its place in the answer */
  stroke: (index: number) => string
  /** of the same line in the period before */
  faintStroke: (index: number) => string
  /** what is below it, opaque: what lies behind does not shine through */
  fill: (index: number) => string
  /** the same for what is not over */
  openFill: (index: number) => string
}

/** How many lines have a colour of their own. */
const COLORS = 10

/** The CSS colour of a series. @param index of the series in the answer */
export function seriesColor(index: number): string {
  return `var(--series-${(index % COLORS) + 1})`
}

/** The colours that hold where an element is. */
export function resolveColors(element: HTMLElement): Colors {
  const probe = document.createElement('span')
  element.append(probe)
  const resolved = (color: string) => {
    probe.style.color = color
    return getComputedStyle(probe).color
  }
  const of = (color: (name: string) => string) => {
    return Array.from({ length: COLORS }, (_, i) => resolved(color(seriesColor(i))))
  }
  const strokes = of((name) => name)
  const faintStrokes = of((name) => `color-mix(in srgb, ${name} 45%, transparent)`)
  const fills = of((name) => `color-mix(in srgb, ${name} 55%, var(--surface))`)
  const openFills = of((name) => `color-mix(in srgb, ${name} 22%, var(--surface))`)
  const colors = { ink: resolved('var(--ink)'), faint: resolved('var(--faint)'), line: resolved('var(--line)') }
  probe.remove()
  const pick = (list: string[]) => (index: number) => list[index % COLORS] ?? colors.ink
  return {
    ...colors,
    stroke: pick(strokes),
    faintStroke: pick(faintStrokes),
    fill: pick(fills),
    openFill: pick(openFills),
  }
}
