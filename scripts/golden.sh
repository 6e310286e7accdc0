#!/usr/bin/env bash
# Makes the committed fixtures again: every */testdata/gen_*.py, in the peers' venv, run in its own folder.
# golden.sh WORD… runs only the generators whose path contains one of the words.
STEP=golden
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
python=$ROOT/build/venv-interop/bin/python
[[ -x $python ]] || die "the peers' venv is missing: make golden makes it"
mapfile -t gens < <(git ls-files -co --exclude-standard -- '*testdata/gen_*.py' | sort)
ran=0
for g in "${gens[@]}"; do
	if [[ $# -gt 0 ]]; then
		hit=0
		for word in "$@"; do [[ $g == *"$word"* ]] && hit=1; done
		[[ $hit -eq 1 ]] || continue
	fi
	say "$g"
	(cd "$(dirname "$g")" && OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 "$python" "$(basename "$g")") || die "$g failed"
	ran=$((ran + 1))
done
[[ $ran -gt 0 ]] || die "no generator matches '$*'"
say "$ran generators ran; see git status for what changed"
