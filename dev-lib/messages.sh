# Sourced by ./dev: what it tells, and locks that tell who holds them.

say() {
  if [ -t 1 ]; then printf '\033[1m▸ %s\033[0m\n' "$*"; else printf '▸ %s\n' "$*"; fi
}

# fail WHAT FIX: a failed step says what to do.
fail() {
  printf 'error: %s\n' "$1" >&2
  [ -z "${2:-}" ] || printf 'fix: %s\n' "$2" >&2
  exit 1
}

# lock FILE WHAT: waits, and tells for which process, until no other ./dev does WHAT in this tree. The lock
# is descriptor 9, which what outlives this step must not inherit (9>&-); unlock ends it.
lock() {
  mkdir -p "$(dirname "$1")"
  exec 9>>"$1"
  flock -n 9 || {
    say "another ./dev $2 in this tree ($(tail -n 1 "$1")): waiting until it is done"
    flock 9
  }
  printf 'pid %s, %s, since %s\n' "$$" "$dev_command" "$(date +%H:%M:%S)" >"$1"
}

unlock() { exec 9>&-; }

# retrying COMMAND…: again, up to three times, while it fails for a network that gave way.
retrying() {
  local tries=4 try code output
  output=$(mktemp)
  for ((try = 1; ; try++)); do
    code=0
    { "$@" 2>&1 >&3 3>&- 9>&- | tee "$output" >&2; } 3>&1 || code=$?
    [ "$code" != 0 ] && [ "$try" -lt "$tries" ] && lost_connection "$output" || break
    say "the connection was lost: trying again in $((try * ${MUSTER_RETRY_PAUSE:-5})) s (try $((try + 1)) of $tries)"
    sleep $((try * ${MUSTER_RETRY_PAUSE:-5}))
  done
  rm -f "$output"
  return "$code"
}

# How apt-get and pip put it. An older pip takes a file that ended early for one that is invalid.
lost_connection() {
  grep -qiE 'failed to fetch|could not connect|connection (failed|broken|reset|aborted|timed out|refused)|timed? ?out|incomplete[- ]?(read|download)|temporary failure|could not resolve|protocolerror|remote end closed|wheel .* is invalid|do not match the hash|50[23] ' "$1"
}
