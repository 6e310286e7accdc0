#!/usr/bin/env bash
# Checks every tool and its version before anything is fetched or built. All that is wrong is said at once, each
# with the command that mends it.
STEP=tools
. "$(dirname "$0")/lib.sh"

bad=0
complain() { printf '%s: error: %s\n' "$STEP" "$*" >&2; bad=1; }
apt() { echo "sudo apt-get install $*"; }

# at_least HAVE WANT: dotted numbers.
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# tool NAME MINIMUM HINT COMMAND…: the first dotted number that the command prints is the version.
tool() {
	local name=$1 min=$2 hint=$3 out version
	shift 3
	if ! command -v "$1" >/dev/null 2>&1; then
		complain "$name is missing (needs $min or newer): $hint"
		return
	fi
	out=$("$@" 2>&1 </dev/null) || true
	version=$(grep -oE '[0-9]+(\.[0-9]+)+|^[0-9]+$' <<<"$out" | head -n 1 || true)
	if [[ -z $version ]]; then
		complain "$name does not tell its version ($(head -n 1 <<<"$out" | cut -c1-80)): $hint"
	elif ! at_least "$version" "$min"; then
		complain "$name $version is too old (needs $min or newer): $hint"
	fi
}

need() { command -v "$1" >/dev/null 2>&1 || complain "$1 is missing: $2"; }

cd "$ROOT"
tool go 1.24 "see go.dev/doc/install (a Go of 1.21 or newer fetches it itself with GOTOOLCHAIN=auto)" go env GOVERSION
if command -v rustup >/dev/null 2>&1; then rust="rustup update stable"; else rust="see rustup.rs, then: rustup default stable"; fi
tool cargo 1.78 "$rust" cargo --version
tool g++ 12 "$(apt g++-12), then CXX=g++-12 make …" "${CXX:-g++}" -dumpfullversion -dumpversion
tool cc 4 "$(apt gcc)" "${CC:-cc}" -dumpfullversion -dumpversion
tool cmake 3.22 "$(apt cmake)" cmake --version
tool ninja 1.8 "$(apt ninja-build)" ninja --version
tool python3 3.9 "$(apt python3)" python3 --version
if command -v python3 >/dev/null 2>&1; then
	tool pip 20 "$(apt python3-pip)" python3 -m pip --version
	python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || complain "python3 has no venv: $(apt python3-venv)"
fi
for t in strip flock awk sed sha256sum df; do
	case $t in strip) p=binutils ;; flock) p=util-linux ;; awk) p=mawk ;; sed) p=sed ;; *) p=coreutils ;; esac
	need "$t" "$(apt $p)"
done
if [[ -z ${GLOO_INCLUDE:-} ]]; then
	for t in apt-get dpkg-deb; do
		need "$t" "this is no Debian: install the gloo headers yourself and give GLOO_INCLUDE=folder"
	done
fi
exit $bad
