#!/usr/bin/env bash
# Builds what users install, for linux on x86-64 and arm64 with glibc 2.28 or later, into dist/: make dist.
#
#   quire-VERSION-py3-none-manylinux_2_28_ARCH.whl   the command, the Python module, manual pages, completions, SBOM
#   quire-VERSION-linux-ARCH.tar.gz                  the same without the module
#   quire-VERSION-linux-ARCH.cdx.json                SBOM: the Go modules in the command, CycloneDX
#   SHA256SUMS
#
# Runs on linux on x86-64 with Go, gcc 11 or later and Python. The first run fetches zig, hatchling and cyclonedx-gomod,
# pinned, into the cache. ARCHES="x86_64 aarch64" chooses. Nothing in the files depends on the time or on paths.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} PYTHON=${PYTHON:-python3} glibc=2.28 sbom_tool=v1.10.0
root=$PWD out=$PWD/${DIST:-dist}
cache=${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}/dist-tools
version=$(scripts/version.sh) commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

tools() { # pinned, by digest
	local have=$cache/requirements.txt
	cmp -s scripts/dist/requirements.txt "$have" || {
		rm -rf "$cache/venv"
		"$PYTHON" -m venv "$cache/venv"
		"$cache/venv/bin/pip" install -q --no-deps --require-hashes -r scripts/dist/requirements.txt
		cp scripts/dist/requirements.txt "$have"
	}
	[ -x "$cache/cyclonedx-gomod-$sbom_tool" ] || {
		GOBIN=$cache GOFLAGS=-trimpath $GO install "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$sbom_tool"
		mv "$cache/cyclonedx-gomod" "$cache/cyclonedx-gomod-$sbom_tool"
	}
}

# zig links against the symbols of an older glibc. On x86-64 gcc compiles, as it does for make: the kernels name their
# instruction sets in gcc's way, which clang, in zig, does not read. On arm64 the kernels are plain C, and zig compiles
# them too; clang fuses multiplications and additions unless told not to.
zig() { # ARCH: a script that is zig's C compiler; its name is part of what Go caches by
	local file=$cache/zig-$1 more=""
	[ "$1" = aarch64 ] || { cp scripts/dist/res_search.c "$cache" && more="'$cache/res_search.c'"; }
	cat >"$work/zig" <<-END
		#!/bin/sh
		exec '$cache/venv/bin/python' -m ziglang cc -target $1-linux-gnu.$glibc -ffp-contract=off $more "\$@"
	END
	cmp -s "$work/zig" "$file" || { chmod +x "$work/zig" && mv "$work/zig" "$file"; }
	echo "$file"
}

command_for() { # ARCH: the contents of a tarball, in $work/ARCH
	local arch=$1 files=$work/$1 linker compiler=gcc
	mkdir -p "$files/completions"
	linker=$(zig "$arch")
	[ "$arch" = x86_64 ] || compiler=$linker
	GOOS=linux GOARCH=$(goarch "$arch") CGO_ENABLED=1 CC=$compiler GOFLAGS=-trimpath $GO build -buildvcs=false \
		-ldflags "-s -w -buildid= -linkmode=external -extld=$linker -X main.version=$version -X main.commit=$commit" \
		-o "$files/sample" ./cmd/sample
	needs_no_newer_glibc "$files/sample"
	GOARCH=$(goarch "$arch") "$cache/cyclonedx-gomod-$sbom_tool" bin -json -std -noserial -version "$version" \
		-output "$files/sample.cdx.json" "$files/sample" 2>/dev/null
	"$cache/venv/bin/python" scripts/dist/sbom.py "$files/sample.cdx.json"
	licenses "$arch" >"$files/THIRD_PARTY_LICENSES"
	"$here" manual --output "$files/man/man1"
	"$here" completion bash >"$files/completions/sample.bash"
	"$here" completion zsh >"$files/completions/_sample"
	"$here" completion fish >"$files/completions/sample.fish"
	cp LICENSE README.md CHANGELOG.md "$files"
}
goarch() { [ "$1" = aarch64 ] && echo arm64 || echo amd64; }

needs_no_newer_glibc() { # FILE
	local newest
	newest=$(readelf -V "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
	echo "$1 needs ${newest/_/ } at most, of $(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | xargs)"
	[ "$(printf '%s\n' "$newest" "GLIBC_$glibc" | sort -V | tail -1)" = "GLIBC_$glibc" ] ||
		{ echo "$1 needs a newer glibc than $glibc" >&2; return 1; }
}

licenses() { # ARCH: the licences of all modules in the command
	GOOS=linux GOARCH=$(goarch "$1") CGO_ENABLED=1 \
		$GO list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' ./cmd/sample |
		sort -u | while read -r module of dir; do
		[ "$dir" != "$root" ] && [ -n "$dir" ] || continue
		find "$dir" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|notice\|patents\)[^/]*' ! -name '*.go' |
			sort | while read -r file; do
				printf '==== %s %s: %s\n\n' "$module" "$of" "${file##*/}"
				cat "$file"
				echo
			done
	done
	printf '==== Go %s: LICENSE\n\n' "$($GO env GOVERSION)"
	cat "$($GO env GOROOT)/LICENSE"
}

tarball() { # ARCH
	local name=quire-$version-linux-$1
	mv "$work/$1" "$work/$name"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
		gzip -n9 >"$out/$name.tar.gz"
	cp "$work/$name/sample.cdx.json" "$out/$name.cdx.json"
	mv "$work/$name" "$work/$1"
}

wheel() { # ARCH
	local project=$work/python-$1
	mkdir "$project"
	cp -r python/{quire,pyproject.toml,hatch_build.py,README.md} LICENSE "$work/$1/THIRD_PARTY_LICENSES" "$project"
	rm -rf "$project/quire/__pycache__"
	(cd "$project" && QUIRE_VERSION=${version/-dev./.dev} QUIRE_DIST_FILES=$work/$1 \
		QUIRE_WHEEL_TAG=py3-none-manylinux_${glibc/./_}_$1 \
		"$cache/venv/bin/python" -m hatchling build -t wheel -d "$out")
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$cache"
rm -f "$out"/quire-* "$out/SHA256SUMS"
tools
here=$work/sample # manual pages and completions are the same for all processors
$GO build -buildvcs=false -ldflags "-X main.version=$version" -o "$here" ./cmd/sample
for arch in ${ARCHES:-x86_64 aarch64}; do
	command_for "$arch"
	tarball "$arch"
	wheel "$arch"
done
(cd "$out" && sha256sum quire-* >SHA256SUMS && ls -l && cat SHA256SUMS)
