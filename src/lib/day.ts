/** The day (UTC) of a time, such as `2026-11-26`. @param ms epoch ms */
export function toDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
