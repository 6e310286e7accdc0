#!/usr/bin/env bash
# gofmt, vet, staticcheck, and the rules of this house that a tool can check. All are run; any that fails fails the lint.
STEP=lint
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2
rc=0
complain() { printf '%s: error: %s\n' "$STEP" "$*" >&2; rc=1; }
# none WHAT LINES: complains when there are lines
none() { [[ -z $2 ]] || complain "$1:"$'\n'"$2"; }

mapfile -t files < <(git ls-files -co --exclude-standard | while read -r f; do [[ -f $f ]] && echo "$f"; done)
of() { printf '%s\n' "${files[@]}" | grep -E "$1" || true; }
mapfile -t go_files < <(of '\.go$')

none "not formatted (gofmt -w)" "$(gofmt -l "${go_files[@]}")"
go vet ./... 2>"$LOGS/vet.log" || { grep -vE '^#|warning|note:|^ *\||^ *[0-9]+ \||In file included|cgo-gcc-prolog' "$LOGS/vet.log" >&2; complain "go vet"; }
go run "$STATICCHECK" ./... 2>"$LOGS/staticcheck.log" || { cat "$LOGS/staticcheck.log" >&2; complain "staticcheck"; }
go mod tidy -diff >"$LOGS/tidy.log" 2>&1 || complain "go.mod is not tidy (go mod tidy): $(grep -E '^[+-]' "$LOGS/tidy.log" | grep -vE '^(\+\+\+|---)' | head -n 3 | tr '\n' ' ')"

none 'only torch/ may import "C"' "$(grep -lE '^import "C"|^\s+"C"$' "${go_files[@]}" | grep -v '^torch/' || true)"

# Stages share types through dialogue/ and never import each other; only internal/loop sees them all.
edges=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./... | sed 's|seadtrain/||g')
none "stages must not import each other" "$(awk '
	function stage(p) { sub("/.*", "", p); return p ~ /^(curriculum|rollout|train|eval)$/ ? p : "" }
	stage($1) && stage($2) && stage($1) != stage($2)' <<<"$edges")"
none "dialogue/ is a leaf: standard library only" "$(awk '$1 == "dialogue" && $2 ~ /[.]|^(torch|model|curriculum|rollout|train|eval|scenarios|internal)/' <<<"$edges")"
none "torch/ must not import the packages above it" "$(awk '$1 == "torch" && $2 ~ /^(model|curriculum|rollout|train|eval|scenarios|dialogue)/' <<<"$edges")"

# What is linked into the program has its licence listed.
unlisted=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./... | sort -u | while read -r m; do
	grep -qE "(^|[ ,|])${m//./\\.}([ ,|]|$)" THIRD_PARTY_LICENSES.md || echo "$m"
done)
none "not listed in THIRD_PARTY_LICENSES.md" "$unlisted"

# What is committed works on every machine: no home folders, no package hosts (clients know where to ask).
none "a path or host of some machine" "$(of '\.(go|sh|py|toml|md|txt|cpp|h|cmake)$|Makefile$|^\.ci/' | grep -v '^scripts/lint.sh$' |
	xargs -r grep -nE '(^|[^A-Za-z0-9_$.}])/(root|home/[a-z]+)/|index-url|(pypi|registry\.npmjs|proxy\.golang|deb\.debian)\.org' || true)"

for f in $(of '\.sh$|^\.ci/run$'); do bash -n "$f" 2>&1 || complain "$f"; done
mapfile -t py < <(of '\.py$')
if [[ ${#py[@]} -gt 0 ]]; then
	python3 -c 'import ast, sys
for f in sys.argv[1:]: ast.parse(open(f, encoding="utf-8").read(), f)' "${py[@]}" || complain "a Python file does not parse"
fi

long=$(of '\.(go|cpp|h|sh)$' | xargs wc -l | awk '$1 > 500 && $2 != "total" {print $2 " (" $1 ")"}')
[[ -z $long ]] || say "note: longer than 500 lines: $(tr '\n' ' ' <<<"$long")"
[[ $rc -eq 0 ]] && say "nothing to complain about"
exit $rc
