#!/bin/sh
# Tries the program of this folder on this machine: smoke/run --backend xla:cuda. See README.txt.
set -e
here=$(cd "$(dirname "$0")" && pwd)
if ! [ -x "$here/sample" ]; then
	gunzip -c "$here/sample.gz" >"$here/sample.new"
	chmod +x "$here/sample.new"
	mv "$here/sample.new" "$here/sample"
fi
exec "$here/sample" smoke run "$here" "$@"
