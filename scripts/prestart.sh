#!/bin/sh
# Run before `npm start`: builds what changed since the last start, wherever the compiler is installed.
if [ -x node_modules/.bin/tsc ]; then
  # The clients take longer and rarely change. The browser's is packed last.
  packed=dist/packages/tallyhouse-browser.tgz
  sources='src/client src/browser src/contract src/json packages package.json'
  if [ -f "$packed" ] && [ -z "$(find $sources -newer "$packed")" ]; then exec scripts/build.sh service; fi
  exec scripts/build.sh service clients
fi
if [ ! -f dist/main.js ]; then
  echo 'There is no dist/main.js. Run npm ci && npm run build first.' >&2
  exit 1
fi
