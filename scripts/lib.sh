# Shared by the set-up scripts: one clear line per failure, logs out of the way, steps that happen whole or not at all.
# Source it: . "$(dirname "$0")/lib.sh"
set -euo pipefail
export LC_ALL=C

ROOT=${SEAD_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
TP=${SEAD_THIRD_PARTY:-$ROOT/third_party}   # where fetched things go
MANIFESTS=${SEAD_MANIFESTS:-$ROOT/third_party}
LOGS=${SEAD_LOGS:-$ROOT/build/log}
STEP=${STEP:-setup}
WORK=

say() { printf '%s: %s\n' "$STEP" "$*"; }

# die MESSAGE: the one line that a person reads.
die() { printf '%s: error: %s\n' "$STEP" "$*" >&2; exit 1; }

# on_exit removes what a failed or interrupted step left, so that the next call starts clean.
on_exit() { if [[ -n $WORK ]]; then rm -rf "$WORK"; fi; }
trap on_exit EXIT
trap 'printf "%s: interrupted; run it again to continue\n" "$STEP" >&2; exit 130' INT
trap 'exit 143' TERM
# What no other line explains (a tool's own message may stand above it).
trap 'printf "%s: error: %s failed at line %s\n" "$STEP" "${0##*/}" "$LINENO" >&2' ERR

# work_dir makes $WORK, a folder on the same disk as the results, so that publishing is a rename. What a killed
# run (SIGKILL, power) left behind is removed; the lock held by locked() makes that safe.
work_dir() {
	mkdir -p "$TP" 2>/dev/null || die "cannot create $TP: is the disk full or read-only?"
	rm -rf "$TP/.work-$STEP"
	WORK=$TP/.work-$STEP
	mkdir "$WORK" 2>/dev/null || die "cannot create $WORK: is the disk full or read-only?"
}

# locked [NAME]: one run of a step at a time; a second waits for the first and then finds its work done.
locked() {
	mkdir -p "$TP" 2>/dev/null || die "cannot create $TP: is the disk full or read-only?"
	exec 9>"$TP/.lock-${1:-$STEP}" || die "cannot write in $TP: is the disk full or read-only?"
	if ! flock -n 9; then
		say "another run is at work; waiting for it"
		flock 9
	fi
}

# reason TEXT: the cause of a failed command in a few words, from what it printed.
reason() {
	local text=$1
	says() { printf '%s' "$text" | grep -qiE "$1"; }
	if says 'no space left on device|disk quota exceeded|ENOSPC|Errno 28'; then
		echo "the disk is full (free some space and run it again)"
	elif says 'DO NOT MATCH THE HASHES|hashes are required|wrong hash|checksum mismatch|Hash Sum mismatch|failed to verify the checksum|SECURITY ERROR'; then
		echo "wrong hash: the file is not the one that was pinned"
	elif says 'IncompleteRead|Connection broken|connection reset|timed? ?out|Temporary failure|could not resolve|Could not connect|NewConnectionError|Network is unreachable|Failed to fetch|spurious network error|dial tcp|ETIMEDOUT|ENOTFOUND'; then
		echo "the download failed (network); run it again to continue"
	elif says 'BadZipFile|not a zip|wheel .*is invalid|invalid wheel|truncated|bad CRC|unexpected end|corrupt'; then
		echo "the download is broken; run it again to fetch it anew"
	elif says "No matching distribution|Unable to locate package|was not found|404 +Not Found|E404|no matching package|Can't find"; then
		echo "the registry does not have the pinned version"
	else
		# the last line that says something, shortened
		printf '%s' "$text" | grep -vE '^[[:space:]]*$' | tail -n 1 | cut -c1-200
	fi
}

# try WHAT LOGNAME COMMAND…: runs it with its output kept in a log; on failure says why in one line. The output is also
# held in memory, because a full disk takes no log.
try() {
	local what=$1 log=$LOGS/$2.log rc=0 out
	shift 2
	mkdir -p "$LOGS" 2>/dev/null || true
	out=$("$@" 2>&1 </dev/null | { tee "$log" 2>/dev/null || true; }; exit "${PIPESTATUS[0]}") || rc=$?
	[[ $rc -eq 0 ]] && return 0
	# a signal ends the step quietly: whoever sent it knows
	[[ $rc -eq 130 || $rc -eq 143 ]] && exit "$rc"
	out=$(reason "$out")
	die "$what: ${out:-it failed without a word (exit code $rc)} [${log#"$ROOT"/}]"
}

# need_disk MIB WHAT: stops before a download that cannot fit.
need_disk() {
	local free
	free=$(df -Pk "$TP" | awk 'NR == 2 {print int($4 / 1024)}')
	(( free >= $1 )) || die "$2 needs $1 MiB of free disk, $TP has $free MiB"
}

# publish WHAT FROM TO: puts a finished folder in place of the old one, by rename.
publish() {
	try "putting $1 in place" "$STEP-publish" bash -c 'rm -rf "$2" && mv "$1" "$2"' _ "$2" "$3"
}

# key FILE…: names a step's inputs (manifests, and the number of the layout that the script makes; raise it when that
# changes); a stamp holding it means the step is done.
key() { cat "$@" | sha256sum | cut -c1-32; }

done_already() { [[ -f $1 && $(cat "$1" 2>/dev/null) == "$2" ]]; }

# put_stamp FILE KEY: the last act of a step, by rename.
put_stamp() {
	printf '%s\n' "$2" >"$1.new" 2>/dev/null && mv "$1.new" "$1" || die "cannot write $1: is the disk full?"
}

# find_python puts into $python one that the peers run on and that can make venvs.
find_python() {
	for python in python3 python3.12 python3.11 python3.13; do
		if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then
			return
		fi
	done
	die "needs python3 3.11 to 3.14 with venv (transformers does): sudo apt-get install python3 python3-venv"
}

# pip_wheels MANIFEST FOLDER: the manifest's wheels for this kind of machine, each checked against its hash, whatever
# the local Python is. Older pips do not expand one manylinux tag to the ones below it, so they are spelled out.
pip_wheels() {
	local platforms=() v
	for v in 28 27 26 25 24 17; do platforms+=(--platform "manylinux_2_${v}_x86_64"); done
	python3 -m pip download --disable-pip-version-check --no-input --progress-bar off --no-deps --only-binary=:all: \
		--implementation cp --python-version 3.12 --abi cp312 --abi abi3 --abi none \
		"${platforms[@]}" --platform manylinux2014_x86_64 --require-hashes -d "$2" -r "$1"
}
