#!/usr/bin/env bash
# Builds the programs of tests/planted with each tool that must see the error in them, runs them,
# and fails unless it is reported. Without this a clean sanitizer run proves nothing.
set -euo pipefail
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
make_work planted
exec </dev/null

# Program, tool (address, leak, thread or valgrind), and what the report must match.
EXPECTED='
use_after_free address use-after-poison
use_after_free valgrind Invalid.read
overflow address use-after-poison
overflow valgrind Invalid.write
leak leak detected.memory.leaks
leak valgrind definitely.lost
race thread data.race
'

# What allocates and what runs threads; the rest of the core is not needed to plant an error.
CORE=(src/core/memory/*.cpp src/core/device/*.cpp src/core/base/{parallel,cgroup,fork}.cpp)
FLAGS=(-std=c++20 -g -O1 -fno-omit-frame-pointer -Isrc -pthread)

# build TOOL SOURCE PROGRAM
build() {
  case $1 in
    valgrind) g++ "${FLAGS[@]}" -DTINYT_VALGRIND "$2" "${CORE[@]}" -o "$3" ;;
    leak) g++ "${FLAGS[@]}" -fsanitize=address "$2" "${CORE[@]}" -o "$3" ;;
    *) g++ "${FLAGS[@]}" "-fsanitize=$1" "$2" "${CORE[@]}" -o "$3" ;;
  esac
}

# report TOOL PROGRAM: what the tool says; the status is the program's.
report() {
  case $1 in
    valgrind) valgrind --error-exitcode=9 --leak-check=full "$2" ;;
    # TSan's shadow memory needs addresses that randomisation may have given away.
    thread) TSAN_OPTIONS=halt_on_error=1 setarch -R "$2" ;;
    leak) ASAN_OPTIONS=detect_leaks=1 "$2" ;;
    *) ASAN_OPTIONS=detect_leaks=0 "$2" ;;
  esac 2>&1
}

for source in tests/planted/*.cpp; do
  grep -q "^$(basename "$source" .cpp) " <<<"$EXPECTED" || die "$source: no report is expected"
done
COUNT=0
while read -r name tool expression; do
  [ -n "$name" ] || continue
  build "$tool" "tests/planted/$name.cpp" "$WORK/$name"
  if report "$tool" "$WORK/$name" >"$WORK/report"; then
    die "$name: $tool did not fail"
  fi
  grep -q "$expression" "$WORK/report" || {
    cat "$WORK/report" >&2
    die "$name: the report of $tool does not match '$expression'"
  }
  if [ "$name $tool" = "leak valgrind" ] &&
    python3 .ci/valgrind_leaks.py "$WORK/report" "$name.cpp" >/dev/null; then
    die "$name: valgrind_leaks.py did not fail"
  fi
  echo "$name: reported by $tool"
  COUNT=$((COUNT + 1))
done <<<"$EXPECTED"
echo "$COUNT planted errors reported"
