/** A part of an export that is on disk. */
export interface Part {
  rows: number
  bytes: number
  /** the cursor after its last row */
  next: string
  /** whether no events follow it at the moment */
  isLast: boolean
  /** accepted events that were not in the store yet */
  pending: number
}

/** The parts written so far. */
export interface Written {
  /** parts that were not empty */
  pages: number
  /** size of the file, or of all files in the folder */
  bytes: number
}

/** Writes an export part by part. */
export interface Parts {
  /** Reads the next part and appends it to what was written before; resolves when it is on disk. */
  write(before: Written): Promise<Part>
  close(): Promise<void>
}
