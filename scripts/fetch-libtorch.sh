#!/usr/bin/env bash
# Brings libtorch (and what its CPU library needs to load) into third_party/site, from wheels pinned by hash.
#   fetch-libtorch.sh        the CPU part: torch/lib (three libraries), torch/include, nvidia/cu13
#   fetch-libtorch.sh cuda   adds what the CUDA plugin compiles and links against
PART=${1:-cpu}
STEP=libtorch-$PART
. "$(dirname "$0")/lib.sh"

# libtorch_cpu's own RPATH is $ORIGIN/../../nvidia/cu13/lib: torch/ and nvidia/ must be siblings.
SITE=$TP/site
CPU_LIBS=(torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1)
CUDA_LIBS=(torch/lib/libtorch_cuda.so torch/lib/libc10_cuda.so)

stamp=$SITE/.stamp-$PART
case $PART in
cpu) manifests=("$MANIFESTS/libtorch.txt") ;;
cuda) manifests=("$MANIFESTS/libtorch.txt" "$MANIFESTS/cuda.txt") ;;
*) die "unknown part $PART (cpu or cuda)" ;;
esac
want=$(key "${manifests[@]}" <(echo layout 1))
done_already "$stamp" "$want" && exit 0
locked
done_already "$stamp" "$want" && exit 0

[[ $(uname -sm) == "Linux x86_64" ]] || die "the wheels are for Linux x86_64, this is $(uname -sm); use LIBTORCH=path"
need_disk 1700 "fetching libtorch"
work_dir
say "fetching $(grep -hoE '^[a-z0-9-]+==[0-9.]+' "${manifests[@]}" | tr '\n' ' ')(530 MB, once)"
for m in "${manifests[@]}"; do
	try "pip download of ${m##*/}" "$STEP-fetch" pip_wheels "$m" "$WORK/wheels"
done
say "unpacking"
w=$WORK/wheels s=$WORK/site
case $PART in
cpu)
	try "unpacking the wheels" "$STEP-unpack" python3 "$(dirname "$0")/unwheel.py" "$s" \
		"$w"/torch-*.whl "${CPU_LIBS[@]}" 'torch/include/*' 'torch-*.dist-info/licenses/*' 'torch-*.dist-info/METADATA' -- \
		"$w"/nvidia_cuda_runtime-*.whl 'nvidia/cu13/lib/libcudart.so.13' 'nvidia/cu13/include/*' 'nvidia_cuda_runtime-*.dist-info/*' -- \
		"$w"/nvidia_cuda_cupti-*.whl 'nvidia/cu13/lib/libcupti.so.13' 'nvidia_cuda_cupti-*.dist-info/*'
	publish libtorch "$s" "$SITE"
	;;
cuda)
	[[ -f $SITE/.stamp-cpu ]] || die "the CPU part is missing; run make setup first"
	try "unpacking the wheels" "$STEP-unpack" python3 "$(dirname "$0")/unwheel.py" "$s" \
		"$w"/torch-*.whl "${CUDA_LIBS[@]}" -- \
		"$w"/nvidia_cuda_crt-*.whl 'nvidia/cu13/include/*' 'nvidia_cuda_crt-*.dist-info/*' -- \
		"$w"/nvidia_cuda_cccl-*.whl 'nvidia/cu13/include/nv/*' 'nvidia_cuda_cccl-*.dist-info/*'
	try "putting the CUDA part in place" "$STEP-publish" cp -rlf "$s/." "$SITE/"
	;;
esac
put_stamp "$stamp" "$want"
say "done: ${SITE#"$ROOT"/} ($(du -sm "$SITE" | cut -f1) MiB)"
