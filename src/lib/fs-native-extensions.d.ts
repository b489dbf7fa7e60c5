/** The part of the package that is used; the package has no types. */
declare module 'fs-native-extensions' {
  const extensions: {
    /**
     * Asks the kernel for an exclusive lock on the whole file, without waiting; closing the descriptor releases it.
     * @returns whether it was granted
     * @throws an error with a `code` if the file system has no locks
     */
    tryLock(fd: number): boolean
  }
  export default extensions
}
