import { seriesColor } from './colors.js'
import * as styles from './swatch.module.css'

/** The colour of a series, in front of its name. @param index of the series in the answer */
export function Swatch({ index }: { index: number }) {
  return <span class={styles.swatch} style={{ background: seriesColor(index) }} aria-hidden="true" />
}
