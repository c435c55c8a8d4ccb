# Sourced by ./dev: distribution packages. Which ones, dev-lib/packages says; apt's own index says which of
# their names this machine can have. What is installed already costs one call of dpkg-query.

# Filled by choose_names.
chosen=()    # names for apt-get
unmet=()     # rows that this machine cannot meet: "ROW: what it has"

# install_packages GROUP…: what is missing of these groups, or the reason why it cannot be had.
install_packages() {
  local rows
  command -v dpkg-query >/dev/null || return 0  # no Debian: CMake names what it misses
  rows=$(package_rows "$@" | rows_not_installed)
  [ -n "$rows" ] || return 0
  may_install "$rows"
  update_index
  choose_names "$rows"
  [ ${#unmet[@]} -eq 0 ] || refuse_unmet
  install_names "${chosen[@]}" || fail "apt-get could not install ${chosen[*]}" \
    "see its message above; when that is dealt with, the same command again"
}

# install_if_possible GROUP…: the same; what cannot be had is named, and its tests are skipped.
install_if_possible() {
  local rows row
  command -v dpkg-query >/dev/null || return 0
  rows=$(package_rows "$@" | rows_not_installed)
  [ -n "$rows" ] || return 0
  (may_install "$rows") || return 0
  update_index
  choose_names "$rows"
  for row in "${unmet[@]}"; do say "cannot be had here: $row; tests that need it are skipped"; done
  [ ${#chosen[@]} -eq 0 ] || install_names "${chosen[@]}" ||
    say "continuing without ${chosen[*]}: tests that need them are skipped"
}

# install_servers GROUP…: the same, if nothing is started by it. 101: "action forbidden by policy".
install_servers() {
  local policy=0
  /usr/sbin/policy-rc.d ssh start 2>/dev/null || policy=$?
  if [ "$policy" = 101 ]; then
    install_if_possible "$@"
  else
    say "not installing $(package_rows "$@" | paste -sd' '), which apt-get would start: tests that need one that is missing are skipped"
  fi
}

# unpack_packages GROUP…: their programs, on PATH afterwards; nothing is installed or started.
unpack_packages() {
  local name folder=$PWD/$build_dir/unpacked
  for name in $(package_rows "$@"); do
    # A program has its package's name, maybe without -server; the file tells that another one's are here.
    command -v "${name%-server}" >/dev/null || [ -e "$folder/$name.unpacked" ] || {
      say "downloading the package $name into $folder"
      mkdir -p "$folder"
      # As root apt-get would hand the download to a user that may not write there.
      (cd "$folder" && retrying apt-get download -q -o APT::Sandbox::User=root "$name" && dpkg -x "$name"_*.deb . && touch "$name.unpacked") \
        </dev/null || say "$name cannot be had here: tests that need it are skipped"
    }
  done
  PATH=$PATH:$folder/usr/bin
}

# ---------------------------------------------------------------- the table

# package_rows GROUP…: their rows, without the group's name.
package_rows() {
  local group
  for group in "$@"; do sed -n "s/^$group  *//p" dev-lib/packages; done
}

# The names in rows, each with the version that it must have ("" for any): "NAME VERSION" a line.
names_in() { tr '|' '\n' | sed -E 's/[()]|>=//g; s/^ +//; s/ +$//; s/  +/ /g'; }

# Of the rows on standard input those that no installed package meets.
rows_not_installed() {
  local rows row name version status found
  declare -A installed=()
  rows=$(cat)
  # shellcheck disable=SC2046  # names, a word each
  while read -r status name found; do
    [ "$status" != installed ] || installed[$name]=$found
  done < <(dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' \
    $(names_in <<<"$rows" | cut -d' ' -f1) 2>/dev/null)
  while IFS= read -r row; do
    while read -r name version; do
      ! recent_enough "${installed[$name]:-}" "$version" || continue 2
    done < <(names_in <<<"$row")
    printf '%s\n' "$row"
  done <<<"$rows"
}

# recent_enough FOUND WANTED: either may be empty, for nothing found and any wanted.
recent_enough() { [ -n "$1" ] && { [ -z "$2" ] || dpkg --compare-versions "$1" ge "$2"; }; }

# choose_names ROWS: of each row the first name that the machine's index has in a version that will do.
choose_names() {
  local row name version found seen
  declare -A candidate=()
  chosen=() unmet=()
  # shellcheck disable=SC2046
  while read -r name found; do
    candidate[$name]=$found
  done < <(LC_ALL=C apt-cache policy $(names_in <<<"$1" | cut -d' ' -f1) |
    awk '/^[^ ].*:$/ {name = substr($0, 1, length($0) - 1)} $1 == "Candidate:" && $2 != "(none)" {print name, $2}')
  while IFS= read -r row; do
    seen=
    while read -r name version; do
      ! recent_enough "${candidate[$name]:-}" "$version" || { chosen+=("$name"); continue 2; }
      [ -z "${candidate[$name]:-}" ] || seen+=", $name ${candidate[$name]}"
    done < <(names_in <<<"$row")
    unmet+=("$row: ${seen:+this system has ${seen#, }}${seen:-this system has none}")
  done <<<"$1"
}

refuse_unmet() {
  local row
  {
    echo "error: this system's packages are too old, or too different, to build Muster from source:"
    for row in "${unmet[@]}"; do printf '  needed: %s\n' "$row"; done
    cat <<'TEXT'
fix: build on Debian 12 or 13. What is built there runs here too, from glibc 2.34 on (Debian 12, Ubuntu 22.04,
     RHEL 9): ./dev package makes a wheel for pip and Debian packages (docs/install.md)
TEXT
  } >&2
  exit 1
}

# ---------------------------------------------------------------- apt

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# may_install ROWS
may_install() {
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
    fail "installing packages needs root, and sudo is not installed" \
      "as root: apt-get install --no-install-recommends $(names_in <<<"$1" | cut -d' ' -f1 | paste -sd' ')"
}

update_index() {
  say "reading the package lists (apt-get update)"
  apt_get update -q || echo "apt-get update failed; continuing with the lists that are here" >&2
}

# install_names NAME…: with a word on their size.
install_names() {
  say "missing packages: $*"
  say "about to download and install:"
  LC_ALL=C apt-get install --no-install-recommends --assume-no "$@" </dev/null 2>/dev/null |
    grep -E '^(Need to get|After this operation)' || true
  apt_get install -q -y --no-install-recommends "$@"
}

# apt-get ARGUMENT…: one that waits for the system's own upgrades, which a new machine begins with.
apt_get() {
  local tries
  for tries in 1 2 3; do
    wait_for_apt
    retrying as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 "$@" </dev/null && return 0
    [ -n "$(apt_lock_holder)" ] || return 1  # another process may have been quicker than we
  done
  return 1
}

wait_for_apt() {
  local holder told=
  while holder=$(apt_lock_holder) && [ -n "$holder" ]; do
    [ "$holder" = "$told" ] ||
      say "waiting for $holder, which holds apt's lock (a new machine installs its upgrades at first)"
    told=$holder
    sleep 1
  done
}

# Who works on packages now: "NAME (pid N)", or nothing. apt and dpkg lock these files with fcntl, so the
# kernel's list has the holder by the file's number.
apt_lock_holder() {
  local file state lists archives pid
  eval "$(apt-config shell state Dir::State::status/f lists Dir::State::lists/d archives Dir::Cache::archives/d)"
  for file in "${state%/*}/lock-frontend" "${state%/*}/lock" "${lists}lock" "${archives}lock"; do
    [ -e "$file" ] || continue
    pid=$(awk -v end=":$(stat -c %i "$file")" \
      '$2 == "POSIX" && substr($6, length($6) - length(end) + 1) == end {print $5; exit}' /proc/locks)
    [ -z "$pid" ] || { echo "$(cat "/proc/$pid/comm" 2>/dev/null || echo "another process") (pid $pid)"; return; }
  done
}
