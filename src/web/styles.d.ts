declare module '*.css'

/** The generated class names, by their names in the file. A name that is not there fails the build. */
declare module '*.module.css' {
  const names: Record<string, string>
  export = names
}
