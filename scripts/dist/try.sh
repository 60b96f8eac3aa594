#!/usr/bin/env bash
# Installs what make dist built, as a user would, and runs the demo: scripts/dist/try.sh [DIST].
#
#   - the wheel, from the file, into an empty virtual environment, where PATH has that environment alone: no Go, no gcc
#   - the Python module's tests there, with pandas, polars, DuckDB, datasets, Iceberg and Lance, and its types
#   - the tarball, in a root with nothing but the libraries that it and the plugin load, and the demo's files
#   - the command for arm64, under qemu, where that is installed or can be
#   - go install
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go} PYTHON=${PYTHON:-python3} dist=$(realpath "${1:-dist}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
home=$work/home cache=${QUIRE_CACHE:-$HOME/.cache/quire}
mkdir "$home"
index=() # how packages are found, which an empty environment does not know
passed='^(PIP_|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy|SSL_CERT)'
while IFS= read -r variable; do index+=("$variable"); done < <(env | grep -E "$passed" || true)

(cd "$dist" && sha256sum --quiet -c SHA256SUMS)

echo "== the wheel, in an empty virtual environment"
"$PYTHON" -m venv "$work/venv"
empty=(env -i "PATH=$work/venv/bin" "HOME=$home" "QUIRE_CACHE=$cache" "${index[@]}")
"${empty[@]}" "$work/venv/bin/pip" install -q "$dist"/quire-*_x86_64.whl
"${empty[@]}" "$work/venv/bin/python" -c 'import shutil; assert not shutil.which("go") and not shutil.which("gcc")'
says() { # prints the command's version
	"$@" --version >"$work/version"
	cat "$work/version"
	grep -qx "commit $(git rev-parse HEAD)" "$work/version" && grep -qxF "sample $(scripts/version.sh)" \
		"$work/version" && grep -q '^go1\.' "$work/version" && grep -q '^plugin cpu: ' "$work/version"
}
says "${empty[@]}" sample
"${empty[@]}" sample setup cpu model
"${empty[@]}" sample run --config configs/smollm2-demo.yaml --output "$work/demo" --progress plain
"${empty[@]}" sample verify "$work/demo"
"${empty[@]}" "$work/venv/bin/python" -c "import quire; assert quire.read('$work/demo').num_rows == 247"
MANPATH=$work/venv/share/man man -w sample-run >/dev/null || ls "$work/venv/share/man/man1/sample-run.1"

"$work/venv/bin/python" - "$dist" "$work"/venv/lib/python3*/site-packages <<'END' # SBOMs name what is in the command
import glob, json, sys
found = glob.glob(sys.argv[1] + "/*.cdx.json") + glob.glob(sys.argv[2] + "/quire-*.dist-info/sboms/*")
assert len(found) >= 2, found
for path in found:
    bom = json.load(open(path))
    names = {component["name"] for component in bom["components"]}
    assert bom["bomFormat"] == "CycloneDX" and len(names) > 50 and "github.com/gomlx/gomlx" in names, path
END

echo "== the Python module"
"${empty[@]}" "$work/venv/bin/pip" install -q pytest mypy pandas polars duckdb datasets 'pyiceberg[sql-sqlite]' \
	pylance boto3 'moto[server]'
cp -r python/tests "$work/tests"
(cd "$work" && "${empty[@]}" QUIRE_TEST_MODEL=smollm2 "$work/venv/bin/python" -m pytest -q tests)
(cd python && "$work/venv/bin/python" -m mypy)

echo "== the tarball, in a root with nothing else"
root=$work/root
mkdir -p "$root"/{tmp,proc,etc,cache/plugins,cache/models}
touch "$root/etc/ld.so.conf"
tar xzf "$dist"/quire-*-linux-x86_64.tar.gz -C "$root" --strip-components 1
share() { cp -al "$1" "$root/cache/$2" 2>/dev/null || cp -a "$1" "$root/cache/$2"; } # links on one file system
for plugin in "$cache"/plugins/cpu-0*; do share "$plugin" plugins; done
share "$cache"/models/SmolLM2-135M-Instruct.Q4_1.gguf models
share "$cache/programs" .
find "$root/sample" "$root/cache/plugins" -type f \( -name sample -o -name '*.so' \) -exec ldd {} + |
	grep -o '/[^ ]*\.so[^ :]*' | sort -u | grep -v "^$work" | xargs -I{} cp -L --parents {} "$root"
cp --parents configs/smollm2-demo.yaml testdata/prompts/demo.parquet "$root"
in_root() { # in a separate namespace, so that mounts disappear with it
	local own=(-m)
	[ "$(id -u)" = 0 ] || own=(-rmpf)
	QUIRE_CACHE=/cache unshare "${own[@]}" sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}
says in_root /sample
in_root /sample run --config configs/smollm2-demo.yaml --progress plain
in_root /sample show out/demo --rows 1
cmp "$root/out/demo/part-00000.parquet" "$work/demo/part-00000.parquet"

echo "== the command for arm64"
arm=$(ls "$dist"/quire-*-linux-aarch64.tar.gz 2>/dev/null || true)
emulator() { command -v qemu-aarch64-static >/dev/null && [ -d /usr/aarch64-linux-gnu ]; }
emulator || { apt-get update -qq && apt-get install -y -qq qemu-user-static libc6-arm64-cross; } >/dev/null 2>&1 || true
if [ -n "$arm" ] && emulator; then
	mkdir "$work/arm"
	tar xzf "$arm" -C "$work/arm" --strip-components 1
	qemu-aarch64-static -L /usr/aarch64-linux-gnu "$work/arm/sample" version
	qemu-aarch64-static -L /usr/aarch64-linux-gnu "$work/arm/sample" show "$work/demo" --rows 1
else
	echo "warning: no tarball for arm64, or no qemu: it is not tried"
fi

echo "== go install"
# regardless of what else GOFLAGS contains
GOFLAGS="${GOFLAGS:-} -buildvcs=true" GOBIN=$work/bin $GO install ./cmd/sample
"$work/bin/sample" --version | tee "$work/version"
grep -q "^commit $(git rev-parse HEAD)" "$work/version"
echo "all tried"
