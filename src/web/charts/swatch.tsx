import { seriesColor } from './colors.js'
import * as styles from './swatch.module.css'

/** A colour sample before the name of a series. @param index of the series in the answer */
export function Swatch({ index }: { index: number }) {
  return <span class={styles.swatch} style={{ background: seriesColor(index) }} aria-hidden="true" />
}
