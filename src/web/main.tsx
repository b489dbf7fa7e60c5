import { render } from 'preact'
import { App } from './app.js'
import './styles.css'

const root = document.getElementById('page')
if (!root) throw new Error('index.html has no element #page')
render(<App />, root)
