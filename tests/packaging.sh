#!/usr/bin/env bash
# The package as a stranger gets it: sdist, wheel built from it outside git, auditwheel, a clean
# environment without a compiler, an editable install, stubs. Prints the figures it checks.
set -euo pipefail
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/lib.sh"
make_work packaging
exec </dev/null

MAX_WHEEL_BYTES=$((8 * 1024 * 1024))
MAX_IMPORT_MS=60

need_build_tools
need binutils has readelf

section "sdist"
new_venv "$WORK/tools"
in_venv "$WORK/tools" pip install -r "$ROOT/.ci/requirements.txt"
in_venv "$WORK/tools" python -m build --sdist --outdir "$WORK/dist" "$ROOT" >/dev/null
SOURCE=$WORK/source
mkdir "$SOURCE"
tar -xzf "$WORK"/dist/*.tar.gz -C "$SOURCE" --strip-components=1
STRAY=$(find "$SOURCE" -name .git -o -name '*.so' -o -name '*.o' -o -name '__pycache__')
[ -z "$STRAY" ] || die "the sdist carries what was built or belongs to git: $STRAY"
ls -l "$WORK"/dist

section "wheel from the sdist, outside git"
cd "$WORK"
in_venv "$WORK/tools" python -m build --wheel --outdir "$WORK/raw" \
  -C cmake.define.TINYT_LEVELS=all "$SOURCE" >/dev/null

section "auditwheel"
in_venv "$WORK/tools" auditwheel show "$WORK"/raw/*.whl
in_venv "$WORK/tools" auditwheel repair -w "$WORK/wheel" "$WORK"/raw/*.whl
WHEEL=$(find "$WORK/wheel" -name '*.whl')
SIZE=$(stat -c %s "$WHEEL")
echo "$(basename "$WHEEL"): $SIZE bytes"
[ "$SIZE" -le "$MAX_WHEEL_BYTES" ] || die "the wheel has $SIZE bytes, more than $MAX_WHEEL_BYTES"

section "relative RPATH"
mkdir "$WORK/unpacked"
in_venv "$WORK/tools" python -m zipfile -e "$WHEEL" "$WORK/unpacked"
find "$WORK/unpacked" -name '*.so*' -print0 | while IFS= read -r -d '' library; do
  paths=$(readelf -d "$library" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p')
  echo "${library#"$WORK/unpacked/"}: ${paths:-none}"
  for path in ${paths//:/ }; do
    case $path in
      '$ORIGIN'*) ;;
      *) die "$library has the absolute RPATH $path" ;;
    esac
  done
done

section "a clean environment without a compiler"
new_venv "$WORK/clean"
in_venv "$WORK/clean" pip install "$WHEEL"
# PATH holds the environment and nothing else: no compiler, no build tool can be found.
clean_python() {
  env -i PATH="$WORK/clean/bin" HOME="$WORK" LANG=C.UTF-8 "$WORK/clean/bin/python" "$@"
}
clean_python -c '
import shutil
assert not any(map(shutil.which, ["cc", "gcc", "g++", "clang", "cmake"]))
import tinyt
print(tinyt.show_config())
function = tinyt.compile(lambda x: (x + 1).exp())
function(tinyt.ones(3))
assert function.graph().html().endswith("</html>\n")  # its parts are in the wheel
'
readme_block ci:example >"$WORK/example.py"
clean_python "$WORK/example.py"

section "one copy of the core"
clean_python - <<'PYTHON'
import tinyt

assert tinyt.ones(2).sum().item() == 2
with open("/proc/self/maps") as maps:
    mapped = {line.split()[-1] for line in maps if "libtinyt" in line}
print(*mapped)
assert len(mapped) == 1, mapped
PYTHON

section "import time"
clean_python - "$MAX_IMPORT_MS" <<'PYTHON'
import subprocess
import sys
import time


def best_ms(code: str) -> float:
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


bare, full = best_ms("pass"), best_ms("import tinyt")
print(f"python {bare:.1f} ms, with `import tinyt` {full:.1f} ms, the import {full - bare:.1f} ms")
if full - bare > float(sys.argv[1]):
    sys.exit(f"import tinyt must take at most {sys.argv[1]} ms more than bare Python")
PYTHON

section "editable install"
# From the unpacked sdist, so that nothing is built into the source tree of a developer.
new_venv "$WORK/editable"
in_venv "$WORK/tools" python -c '
import sys, build
print(*build.ProjectBuilder(sys.argv[1]).build_system_requires, "cmake", "ninja", sep="\n")
' "$SOURCE" >"$WORK/requirements.txt"
in_venv "$WORK/editable" pip install -r "$WORK/requirements.txt"
in_venv "$WORK/editable" pip install -e "$SOURCE" --no-build-isolation \
  -C build-dir="$WORK/build-editable"
in_venv "$WORK/editable" python "$WORK/example.py"
in_venv "$WORK/editable" python -c '
import sys, pathlib, tinyt
assert pathlib.Path(tinyt.__file__).is_relative_to(sys.argv[1]), tinyt.__file__
' "$SOURCE"

section "stubs"
# With what its optional modules import.
in_venv "$WORK/clean" pip install "$WHEEL[test]"
cd "$ROOT"
install_lint "$WORK/clean"
cd "$WORK"
in_venv "$WORK/clean" python -m mypy.stubtest tinyt \
  --allowlist "$ROOT/tools/stubtest_allowlist.txt" --mypy-config-file "$ROOT/pyproject.toml"

section "packaging is sound"
