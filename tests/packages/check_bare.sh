#!/bin/sh
# ./dev check-bare: the last commit in a new chroot of Debian that has nothing but apt and pip, and there the two
# commands with which README begins. By hand: it downloads and compiles everything, for about an hour on two cores.
# The chroot lies below build/ and is removed; its output goes to build/check-bare.log too.
#   check_bare.sh BUILD_DIRECTORY [--suite bookworm|trixie] [COMMAND…]   Debian 12, or 13; other commands than README's
set -eu
build=$1 && shift
suite=bookworm
if [ "${1:-}" = --suite ]; then
  suite=${2:-} && shift 2 || true
  case "$suite" in
    bookworm | trixie) ;;
    *) echo "error: check-bare --suite takes bookworm or trixie, not '$suite'" >&2; exit 2 ;;
  esac
fi
[ $# -gt 0 ] || set -- './dev demo' './dev test'
# Inside, in mount and process namespaces of their own, so that nothing is left mounted or running.
if [ "${CHECK_BARE_INSIDE:-}" != yes ]; then
  for tool in mmdebstrap unshare git; do
    command -v "$tool" >/dev/null || { echo "check-bare needs $tool; fix: apt-get install $tool" >&2; exit 1; }
  done
  [ "$(id -u)" = 0 ] || { echo "check-bare makes a chroot, which needs root; fix: sudo ./dev check-bare" >&2; exit 1; }
  CHECK_BARE_INSIDE=yes exec unshare --mount --pid --fork --kill-child "$0" "$build" --suite "$suite" "$@"
fi
mkdir -p "$build"
root=$(mktemp -d "$(cd "$build" && pwd)/bare-XXXXXX")
trap 'umount -l "$root/proc" "$root/dev" "$root/sys" "$root" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' INT TERM
begin=$(date +%s)
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3-pip "$suite" "$root"
mkdir "$root/muster"
git archive HEAD | tar -x -C "$root/muster"
# The way out of this machine: its name servers, its authorities, pip's settings.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost\n' "$(uname -n)" >"$root/etc/hosts"
mount --bind "$root" "$root" && mount --make-private "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
mount --rbind /sys "$root/sys" && mount --make-rslave "$root/sys"
# A plain chroot would not do: ranks get mount namespaces, which begin at their namespace's own root.
enter='cd "$1" && pivot_root . . && umount -l . && cd /muster && eval "$2"'
: >"$build/check-bare.log"
for command in "$@"; do
  code=0
  echo "== $suite: $command ($(($(date +%s) - begin)) s)" | tee -a "$build/check-bare.log"
  { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    ${MUSTER_TORCH_INDEX:+MUSTER_TORCH_INDEX="$MUSTER_TORCH_INDEX"} ${PIP_CERT:+PIP_CERT="$PIP_CERT"} \
    ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} \
    unshare --mount sh -c "$enter" enter "$root" "$command" </dev/null 2>&1 || echo "$?" >"$root/failed"; } |
    tee -a "$build/check-bare.log"
  [ ! -e "$root/failed" ] || code=$(cat "$root/failed")
  [ "$code" = 0 ] || { echo "error: '$command' failed with exit code $code on a bare machine" >&2; exit 1; }
done
echo "== all of it passed in $(($(date +%s) - begin)) s" | tee -a "$build/check-bare.log"
