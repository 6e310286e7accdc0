#!/usr/bin/env bash
# The long checks: every fuzz target for FUZZTIME (default 5m) each, then all tests with the lengths that testenv.Nightly
# gives them. Both go on after a failure. nightly.sh WORD… fuzzes only targets whose "package Name" holds a word. What the
# fuzzer finds, it writes into the package's testdata/fuzz: commit it with the fix.
STEP=nightly
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
failed=()

while IFS=: read -r file name; do
	target="./$(dirname "$file") $name"
	hit=$(($# == 0))
	for word in "$@"; do [[ $target == *"$word"* ]] && hit=1; done
	[[ $hit -eq 1 ]] || continue
	scripts/timed.sh "fuzz $target" go test "${target% *}" -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-5m}" -fuzzminimizetime 1s ||
		failed+=("fuzz $target")
done < <(git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' | sed 's/func //')

[[ $# -gt 0 ]] || scripts/timed.sh "soaks" env SEAD_NIGHTLY=1 go test -p 1 -timeout 10h ./... || failed+=(soaks)
[[ ${#failed[@]} -eq 0 ]] || die "${#failed[@]} failed: $(IFS=,; echo "${failed[*]}")"
say "all passed"
