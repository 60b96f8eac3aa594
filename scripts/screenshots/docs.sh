#!/usr/bin/env bash
# Makes the pictures of docs/pictures: the demo job on a terminal, and its report. Needs bin/sample, the program
# "script" of util-linux, and a Chromium (see main.go). Takes a few minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=out/pictures
rm -rf $work
mkdir -p $work docs/pictures
command=(bin/sample run --config configs/smollm2-demo.yaml --output $work/demo)
echo "\$ ${command[*]}" >$work/terminal.log
script -aqefc "stty cols 100 rows 40; ${command[*]}" $work/terminal.log
bin/sample report $work/demo -o $work/report.html
go run ./scripts/screenshots $work/terminal.log docs/pictures/run.png
go run ./scripts/screenshots $work/report.html docs/pictures/report.png
go run ./scripts/screenshots $work/report.html docs/pictures/report-dark.png
