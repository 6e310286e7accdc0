#!/usr/bin/env bash
# Builds bin/seadtrain. Go itself skips what has not changed. The C compiler's warnings about deprecated functions of
# the NVML binding are kept in the log; errors are shown whole.
STEP=seadtrain
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
commit=$(git describe --always --dirty --abbrev=12 --match=NoTagEver 2>/dev/null || echo unknown)
log=$LOGS/go.log
mkdir -p "$LOGS" bin 2>/dev/null || die "cannot create $LOGS: is the disk full or read-only?"
start=$SECONDS
before=$(sha256sum bin/seadtrain 2>/dev/null || true)
# Found beside the binary first, so that the tree can be moved; the cgo flags in torch/ name this folder, for go test.
rpath="-extldflags=-Wl,-rpath,\$ORIGIN/../build/native"
# Held in memory, because a full disk takes no log.
if ! text=$(go build -ldflags "-X seadtrain/internal/version.commit=$commit '$rpath'" -o bin/seadtrain ./cmd/seadtrain 2>&1 </dev/null | { tee "$log" 2>/dev/null || true; }); then
	if grep -qiE 'no space left|errno 28' <<<"$text"; then die "go build: $(reason "$text") [${log#"$ROOT"/}]"; fi
	grep -vE 'deprecated|DEPRECATED|cgo-gcc-prolog: In function|In file included from|^ *[0-9]* *\| *\^?~*$' <<<"$text" | head -n 60 >&2 || true
	die "go build failed [${log#"$ROOT"/}]"
fi
[[ $before == "$(sha256sum bin/seadtrain 2>/dev/null)" ]] || say "built bin/seadtrain ($commit) in $((SECONDS - start)) s"
