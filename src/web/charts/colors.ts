/** The page's colours resolved for a canvas, which understands neither variables nor `light-dark()`. */
export interface Colors {
  ink: string
  faint: string
  line: string
  /** line colour of a series, by its index in the answer */
  stroke: (index: number) => string
  /** line colour of the same series in the previous period */
  faintStroke: (index: number) => string
  /** opaque area colour, so that nothing shows through */
  fill: (index: number) => string
  /** area colour of a bucket that is not over yet, and of bars of the previous period */
  openFill: (index: number) => string
}

/** Number of distinct series colours. */
const COLORS = 10

/** The CSS colour of a series. @param index of the series in the answer */
export function seriesColor(index: number): string {
  return `var(--series-${(index % COLORS) + 1})`
}

/** Resolves the colours that apply to an element. */
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
