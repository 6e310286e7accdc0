"""Unpack parts of wheels: unwheel.py DEST WHEEL PATTERN… [-- WHEEL PATTERN…]

Patterns are fnmatch on member names; each must match something. Python's zipfile checks every CRC, so a
truncated file fails here even if it got past the hash. Only files are written, never outside DEST.
"""
import fnmatch
import os
import shutil
import sys
import zipfile


def unpack(dest, wheel, patterns):
    with zipfile.ZipFile(wheel) as z:
        for pattern in patterns:
            names = [n for n in z.namelist() if fnmatch.fnmatch(n, pattern) and not n.endswith("/")]
            if not names:
                sys.exit(f"{os.path.basename(wheel)} holds no {pattern}")
            for name in names:
                target = os.path.normpath(os.path.join(dest, name))
                if not target.startswith(os.path.join(dest, "")):
                    sys.exit(f"{os.path.basename(wheel)}: refusing the path {name}")
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with z.open(name) as src, open(target, "wb") as dst:
                    shutil.copyfileobj(src, dst, 1 << 20)


def main(argv):
    dest, rest = os.path.abspath(argv[0]), argv[1:]
    while rest:
        cut = rest.index("--") if "--" in rest else len(rest)
        unpack(dest, rest[0], rest[1:cut])
        rest = rest[cut + 1 :]


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, zipfile.BadZipFile) as e:
        sys.exit(f"{type(e).__name__}: {e}")
