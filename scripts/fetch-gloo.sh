#!/usr/bin/env bash
# Brings the gloo headers into third_party/gloo: a Debian package, downloaded by apt and unpacked, never installed.
# GLOO_INCLUDE=folder uses headers that are already there (other distributions).
STEP=gloo
. "$(dirname "$0")/lib.sh"

[[ -z ${GLOO_INCLUDE:-} ]] || {
	[[ -f $GLOO_INCLUDE/gloo/context.h ]] || die "GLOO_INCLUDE=$GLOO_INCLUDE holds no gloo/context.h"
	exit 0
}
manifest=$MANIFESTS/gloo.txt
read -r pkg version sha < <(grep -v '^#' "$manifest")
stamp=$TP/gloo/.stamp
want=$(key "$manifest" <(echo layout 1))
done_already "$stamp" "$want" && exit 0
locked
done_already "$stamp" "$want" && exit 0

work_dir
deb=$WORK/deb
mkdir -p "$deb" "$WORK/lists/partial" "$WORK/cache/archives/partial" 2>/dev/null || die "cannot create $WORK: is the disk full?"

# Package lists in a private folder: the system's may be empty or old, and writing there would need root.
private=(-o "Dir::State::Lists=$WORK/lists" -o "Dir::Cache=$WORK/cache" -o "Dir::State::Status=/var/lib/dpkg/status"
	-o "APT::Sandbox::User=" -o "Acquire::Retries=3" -o "Acquire::Languages=none")
fetch() { (cd "$deb" && apt-get "$@" -q download "$pkg=$version"); }

say "fetching the headers of $pkg $version"
if ! fetch -o "APT::Sandbox::User=" >/dev/null 2>&1 </dev/null; then
	try "apt-get update (private lists)" gloo-lists apt-get "${private[@]}" -q update
	try "apt-get download $pkg (or give GLOO_INCLUDE=folder)" gloo-fetch fetch "${private[@]}"
fi
file=$(find "$deb" -name '*.deb' | head -n 1)
[[ -n $file ]] || die "apt-get download brought no file for $pkg $version"
got=$(sha256sum "$file" | cut -d' ' -f1)
[[ $got == "$sha" ]] || die "$pkg: wrong hash: the file is not the one that was pinned ($got, ${manifest#"$ROOT"/} has $sha)"
try "unpacking $pkg" gloo-unpack dpkg-deb -x "$file" "$WORK/root"
[[ -f $WORK/root/usr/include/gloo/context.h ]] || die "$pkg holds no gloo/context.h"
mkdir "$WORK/out"
mv "$WORK/root/usr/include" "$WORK/out/include"
mv "$WORK/root/usr/share/doc/$pkg/copyright" "$WORK/out/copyright"
publish "the gloo headers" "$WORK/out" "$TP/gloo"
put_stamp "$stamp" "$want"
say "done: ${TP#"$ROOT"/}/gloo"
