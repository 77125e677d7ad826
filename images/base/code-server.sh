#!/bin/sh
# The editor, from npm: code-server.sh VERSION
set -eu
echo "== the editor, code-server $1"
npm install --global --ignore-scripts "code-server@$1"
