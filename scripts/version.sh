#!/bin/sh
# Prints the version that this checkout builds: the version of the changelog's first heading, followed by
# "-dev.COMMITS+gCOMMIT" unless the commit has that version's tag, and by ".dirty" if there are uncommitted changes.
# Python's package tools read it as the same version.
cd "$(dirname "$0")/.." || exit
version=$(sed -nE 's/^## .*\b([0-9]+\.[0-9]+\.[0-9]+).*/\1/p' CHANGELOG.md | head -1)
commit=$(git rev-parse --short=9 HEAD 2>/dev/null) || { echo "$version-dev"; exit; }
git diff --quiet HEAD -- ':!docs/nightly.md' 2>/dev/null || dirty=dirty
if git tag --points-at HEAD | grep -qx "v$version"; then
	echo "$version${dirty:++$dirty}"
else
	echo "$version-dev.$(git rev-list --count HEAD)+g$commit${dirty:+.$dirty}"
fi
