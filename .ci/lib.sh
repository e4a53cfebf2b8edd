# Shared by .ci/run, .ci/full and tests/packaging.sh: sourced, never run.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TORCH_REQUIREMENT="torch==2.13.0"
JAX_REQUIREMENT="jax==0.10.2"
CI_START=$(date +%s)
export CI=true PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_QUIET=1
export MPLBACKEND=Agg
# Two workers for every pytest; a file stays together, so that its tests keep their order. After a
# crash the run fails at once: with another worker it may never end.
export PYTEST_ADDOPTS="-n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0"

elapsed() {
  local seconds=$(($(date +%s) - CI_START))
  printf '%02d:%02d' $((seconds / 60)) $((seconds % 60))
}

section() { printf '\n==== [%s] %s\n' "$(elapsed)" "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# make_work NAME: a temporary directory in $WORK, removed at exit.
make_work() {
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/tinyt-$1.XXXXXX")
  trap 'rm -rf "$WORK"' EXIT
}

# need PACKAGE TEST...: installs the Debian package where the test command fails.
need() {
  local package=$1
  shift
  if "$@" >/dev/null 2>&1; then return 0; fi
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "$package is missing and only root can install it"
    sudo=(sudo -n)
  fi
  if [ -z "${APT_UPDATED:-}" ]; then
    "${sudo[@]}" apt-get update -qq
    APT_UPDATED=1
  fi
  echo "installing $package"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "$package" >/dev/null </dev/null
}

has() { command -v "$1"; }

has_python_headers() {
  local include
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -e "$include/Python.h" ]
}

# links_with COMPILER FLAG...: whether the compiler can link a program with the flags.
links_with() {
  echo 'int main() { return 0; }' | "$@" -x c++ - -o /dev/null
}

need_build_tools() {
  need g++ has g++
  need python3-dev has_python_headers
  need python3-venv python3 -c 'import ensurepip'
}

need_sanitizers() {
  need clang has clang++
  need libclang-rt-dev links_with clang++ -fsanitize=address
  need llvm has llvm-symbolizer
  need valgrind has valgrind
}

# Opens the pages that compiled functions write.
need_browser() { need chromium has chromium; }

# A software renderer for wgpu, which validates WGSL.
need_renderer() {
  need libegl1 compgen -G "/usr/lib/*/libEGL.so.1"
  need libgl1-mesa-dri compgen -G "/usr/lib/*/dri/swrast_dri.so"
}

# Vulkan on the CPU, for the device "webgpu".
need_vulkan() {
  need libvulkan1 compgen -G "/usr/lib/*/libvulkan.so.1"
  need mesa-vulkan-drivers compgen -G "/usr/share/vulkan/icd.d/lvp_icd*.json"
}

# OpenCL on the CPU.
need_opencl() {
  need ocl-icd-libopencl1 compgen -G "/usr/lib/*/libOpenCL.so.1"
  need pocl-opencl-icd test -e /etc/OpenCL/vendors/pocl.icd
}

# AMD's runtime and compiler, which check names and kernels without a device. Debian has a package.
need_hip() {
  need libamdhip64-5 compgen -G "/usr/lib/*/libamdhip64.so.*" || echo "no HIP: its tests are skipped"
}

# What the examples of the C interface are written in, beside C.
need_luajit() { need luajit has luajit; }

# new_venv DIR: a new environment; the python to use is DIR/bin/python.
new_venv() {
  python3 -m venv "$1"
  "$1/bin/python" -m pip install --upgrade pip
}

# in_venv DIR COMMAND...: runs the command as after `. DIR/bin/activate`.
in_venv() {
  local venv=$1
  shift
  VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" "$@" </dev/null
}

# install_lint VENV: the tools that the extra `lint` of pyproject.toml pins, without a build.
install_lint() {
  "$1/bin/python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["lint"], sep="\n")
' >"$1/lint.txt"
  in_venv "$1" pip install -r "$1/lint.txt"
}

# readme_block MARKER: the fenced block of README.md below <!-- MARKER -->.
readme_block() { python3 "$ROOT/.ci/readme_block.py" "$1"; }

# install_sanitized VENV BUILD_DIR SANITIZERS [EXTRA [ARGUMENT...]]: builds with GCC, whose runtime is
# a shared library that can be preloaded into Python, and with the C++ tests.
install_sanitized() {
  in_venv "$1" env CC=gcc CXX=g++ pip install "$ROOT${4:-}" -C build-dir="$2" \
    -C install.strip=false \
    -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -C cmake.define.TINYT_SANITIZE="$3" -C cmake.define.TINYT_BUILD_TESTS=ON "${@:5}"
  in_venv "$1" pip install cmake # for ctest
}

# Not detect_stack_use_after_return: GCC's fake frames are not aligned for AVX-512 (PR 110027).
# Leaks are found by the live-tensor fixture: LeakSanitizer would report Python's own.
sanitizer_environment() {
  echo "LD_PRELOAD=$(gcc -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)"
  echo "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1"
  echo "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  echo "PYTHONMALLOC=malloc"
}

# fraction F: how much of the suite a sample takes: F, or less where all of it took more than a
# quarter of an hour ($SUITE_SECONDS); builds are as slow there, so samples make up for them.
fraction() {
  awk -v f="$1" -v s="$SUITE_SECONDS" 'BEGIN { print (s > 900 ? f * (900 / s) ^ 2 : f) }'
}

# sanitized VENV COMMAND...: runs the command on the build with sanitizers.
sanitized() {
  local venv=$1 variables
  shift
  mapfile -t variables < <(sanitizer_environment)
  in_venv "$venv" env "${variables[@]}" "$@"
}

# sanitized_pytest VENV ARGUMENT...: the sanitizer and not Python reports a crash, and pytest does
# not keep the report.
sanitized_pytest() {
  sanitized "$1" pytest -q -p no:cacheprovider -p no:faulthandler --capture=sys "${@:2}"
}

# supported_levels VENV: the instruction-set levels this machine can run, best first.
supported_levels() {
  in_venv "$1" python -c '
from tinyt._core import build_info
print(*reversed([name for name, supported in build_info()["levels"].items() if supported]), sep="\n")
'
}

# check_style VENV: fails on anything ruff or clang-format would change.
check_style() {
  in_venv "$1" ruff check .
  in_venv "$1" ruff format --check .
  find src tests \( -name '*.h' -o -name '*.cpp' \) -print0 |
    VIRTUAL_ENV=$1 PATH="$1/bin:$PATH" xargs -0 clang-format --dry-run -Werror
}

# check_accuracy FILE: the output of `tinyt train digits` ends with at least 98%.
check_accuracy() {
  tail -n 1 "$1" |
    awk '/^test accuracy: [0-9.]+%$/ { ok = $3 + 0 >= 98 } END { exit !ok }' ||
    die "the last line must be 'test accuracy: N%' with N at least 98: $(tail -n 1 "$1")"
}
