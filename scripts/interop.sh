#!/usr/bin/env bash
# Runs the tests that load our output with other programs: test/interop/run_*.sh and test/interop/test_*.py, all of
# them even if one fails. Each gets PYTHON (the peers' venv), SEADTRAIN (the binary) and INTEROP_DIR (a scratch folder).
# interop.sh NAME… runs only the files whose name contains one of the words.
STEP=interop
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
export PYTHON=$ROOT/build/venv-interop/bin/python SEADTRAIN=$ROOT/bin/seadtrain INTEROP_DIR=$ROOT/build/interop
export OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
[[ -x $PYTHON ]] || die "the peers' venv is missing: make interop makes it"
[[ -x $SEADTRAIN ]] || die "bin/seadtrain is missing: make bin/seadtrain"

wanted() {
	local name=$1 word
	shift
	[[ $# -eq 0 ]] && return 0
	for word in "$@"; do [[ $name == *"$word"* ]] && return 0; done
	return 1
}
shopt -s nullglob
ran=0 failed=()
for t in test/interop/run_*.sh test/interop/test_*.py; do
	wanted "${t##*/}" "$@" || continue
	rm -rf "$INTEROP_DIR" && mkdir -p "$INTEROP_DIR"
	start=$SECONDS rc=0
	case $t in
	*.sh) bash "$t" || rc=$? ;;
	*.py) "$PYTHON" -m pytest -q -p no:cacheprovider "$t" || rc=$? ;;
	esac
	ran=$((ran + 1))
	[[ $rc -eq 0 ]] || failed+=("$t")
	say "$t: $([[ $rc -eq 0 ]] && echo passed || echo FAILED) in $((SECONDS - start)) s"
done
[[ $ran -gt 0 ]] || die "test/interop holds no test that matches '$*'"
[[ ${#failed[@]} -eq 0 ]] || die "${#failed[@]} of $ran failed: ${failed[*]}"
say "$ran passed"
