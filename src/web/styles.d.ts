declare module '*.css'

/** Generated class names, by their names in the file. The build fails at an unknown one. */
declare module '*.module.css' {
  const names: Record<string, string>
  export = names
}
