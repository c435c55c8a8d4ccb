# Sourced by ./dev: the Python environments, LibTorch in one of them, and what pip installs. Of pip only errors
# are shown (-qq). numpy comes with torch, which else warns at each import that it is missing.

# find_torch PYTHON: the directory of an importable torch 2.11–2.14, without importing it.
find_torch() {
  command -v "$1" >/dev/null || return 1
  "$1" - 2>/dev/null <<'PYTHON'
import importlib.util, os, re, sys
spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    sys.exit(1)
directory = spec.submodule_search_locations[0]
with open(os.path.join(directory, "version.py")) as file:
    found = re.search(r"__version__ = '(\d+)\.(\d+)", file.read())
if not found or not (2, 11) <= tuple(map(int, found.groups())) <= (2, 14):
    sys.exit(1)
print(directory)
PYTHON
}

# pip_install WHAT… -- PIP-ARGUMENT…: says how much it will download, then installs into the venv.
pip_install() {
  local report
  report=$(mktemp)
  say "asking pip what it needs for: $*"
  if "$venv/bin/pip" install -q --dry-run --report "$report" "$@" </dev/null >/dev/null 2>&1; then
    "$venv/bin/python" - "$report" <<'PYTHON' || true
import json, os, sys, urllib.request
total, unknown, names = 0, 0, []
for item in json.load(open(sys.argv[1]))["install"]:
    url = item["download_info"]["url"]
    names.append("%s %s" % (item["metadata"]["name"], item["metadata"]["version"]))
    try:
        if url.startswith("file://"):
            total += os.path.getsize(url[len("file://"):].replace("%2B", "+"))
        else:
            request = urllib.request.Request(url, method="HEAD")
            total += int(urllib.request.urlopen(request, timeout=10).headers["Content-Length"])
    except Exception:
        unknown += 1
extra = ", and %d files of unknown size" % unknown if unknown else ""
if names:
    print("about to download %.0f MB%s: %s" % (total / 1e6, extra, ", ".join(names)))
PYTHON
  fi
  rm -f "$report"
  retrying "$venv/bin/pip" install -qq --no-input "$@" </dev/null
}

# Leaves the directory of LibTorch in $torch_dir and makes the Python environment that the tests use.
install_torch() {
  if [ ! -x "$venv/bin/python" ]; then
    local options=()
    if [ -z "${MUSTER_TORCH:-}" ] && find_torch python3 >/dev/null; then
      options=(--system-site-packages)  # python3 has a torch that will do
    fi
    say "making the Python environment $venv"
    python3 -m venv "${options[@]}" "$venv" 9>&- ||
      fail "python3 -m venv failed" "install python3-venv; rm -rf $venv; try again"
  fi
  if [ -n "${MUSTER_TORCH:-}" ]; then
    torch_dir=$MUSTER_TORCH
    [ -e "$torch_dir/lib/libtorch_cpu.so" ] ||
      fail "MUSTER_TORCH=$torch_dir has no lib/libtorch_cpu.so" \
        "name the directory of the torch package: python3 -c 'import torch; print(torch.__path__[0])'"
    return 0
  fi
  torch_dir=$(find_torch "$venv/bin/python" || find_torch python3 || true)
  [ -z "$torch_dir" ] || return 0
  say "LibTorch: no torch 2.11–2.14 here; installing torch $torch_version into $venv"
  if [ -n "${MUSTER_TORCH_INDEX:-}" ]; then
    pip_install "torch==$torch_version" numpy --index-url "$MUSTER_TORCH_INDEX"
  else
    echo "(MUSTER_TORCH_INDEX=https://download.pytorch.org/whl/cpu is far smaller where no GPU is)"
    pip_install "torch==$torch_version" numpy
  fi || fail "pip could not install torch $torch_version" \
    "set MUSTER_TORCH_INDEX to an index that has it, or MUSTER_TORCH to an installed LibTorch"
  torch_dir=$(find_torch "$venv/bin/python") ||
    fail "torch $torch_version is installed but not importable" "rm -rf $venv; try again"
}

# install_requirements FILE STAMP: Python packages. The stamp in the environment makes the second time free.
install_requirements() {
  cmp -s "$1" "$venv/$2" && return 0
  lock_build
  pip_install -r "$1" || fail "pip could not install $1" "see pip's message above"
  cp "$1" "$venv/$2"
  unlock
}

# What the Python examples need, and what only the tests use.
install_example_python() { install_requirements examples/requirements.txt examples.installed; }
install_test_python() { install_requirements tests/requirements.txt requirements.installed; }
