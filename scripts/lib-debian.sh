# Folders with a Debian in them, for tests on a bare machine: sourced, not run. Needs root.
#
#   folder=$(debian_folder bookworm bare)         # fresh, nothing but ca-certificates, git and make
#   debian_give_rust "$folder"                    # the toolchain of this machine, without what was installed with it
#   debian_give_sources "$folder"                 # this repository as it is, at /root/claims
#   in_debian "$folder" 'cd claims && make demo'
#   rm -rf "$folder"
#
# The mirror, the proxies and the certificates are those of this machine's apt: DEBIAN_MIRROR names another mirror.

# The versions that a Debian release has. PostgreSQL 16 is supported too, and has to be built from source.
DEBIAN_MAJORS=(15 17 18)
DEBIAN_ROOT=$CLAIMS_TARGET/debian

# Prints the Debian release that has this major version of PostgreSQL.
suite_of_major() {
  case $1 in
    15) echo bookworm ;;
    17) echo trixie ;;
    18) echo forky ;;
    *) die "no Debian release has PostgreSQL $1 (${DEBIAN_MAJORS[*]}): name the folder in which you have installed a build of it" ;;
  esac
}

need_debian() {
  [ "$(id -u)" = 0 ] || die "folders with a Debian in them are made and entered by root only"
  "$CLAIMS_ROOT/scripts/setup" debian
}

# The mirrors of Debian and Debian-Security in the configuration of apt here.
apt_repository() {
  # The dollar signs are apt's.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^Debian|$1|//p" | head -1
}
debian_mirror() {
  local mirror=${DEBIAN_MIRROR:-$(apt_repository Debian)}
  [ -n "$mirror" ] || die "apt here knows no Debian mirror: run apt-get update, or set DEBIAN_MIRROR"
  printf '%s\n' "$mirror"
}

# debian_base SUITE: the folder from which fresh ones are copied. Made once; remove it for a newer one.
debian_base() {
  local suite=$1 base=$DEBIAN_ROOT/base-$1 mirror security http_proxy= https_proxy=
  if [ ! -e "$base/etc/complete" ]; then
    say "debootstrap of $suite into ${base#"$CLAIMS_ROOT"/}"
    mirror=$(debian_mirror)
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    export http_proxy https_proxy
    [ -n "$http_proxy" ] || unset http_proxy
    [ -n "$https_proxy" ] || unset https_proxy
    rm -rf "$base" && mkdir -p "$DEBIAN_ROOT"
    # debootstrap has no script for releases that are younger than itself: use that of sid.
    debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$base" "$mirror" \
      "$([ -e "/usr/share/debootstrap/scripts/$suite" ] && echo "/usr/share/debootstrap/scripts/$suite" || echo /usr/share/debootstrap/scripts/sid)" \
      >"$base.log" 2>&1 || { tail -20 "$base.log" >&2; die "debootstrap of $suite failed"; }
    security=$(apt_repository Debian-Security)
    {
      echo "deb $mirror $suite main"
      case $suite in bookworm | trixie) [ -z "$security" ] || echo "deb $security $suite-security main" ;; esac
    } >"$base/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|ForceIPv[46]|Check-Valid-Until)' >"$base/etc/apt/apt.conf.d/90host" || true
    # A mirror may be a snapshot of some day.
    echo 'Acquire::Check-Valid-Until "false";' >>"$base/etc/apt/apt.conf.d/90host"
    # It need not survive a crash of this machine: dpkg waits for the disk after each file otherwise.
    echo force-unsafe-io >"$base/etc/dpkg/dpkg.cfg.d/90throwaway"
    chroot "$base" apt-get clean
    touch "$base/etc/complete"
  fi
  printf '%s\n' "$base"
}

# debian_folder SUITE NAME: a fresh copy.
debian_folder() {
  local base folder=$DEBIAN_ROOT/$2
  base=$(debian_base "$1") || exit 1
  rm -rf "$folder"
  cp -a --reflink=auto "$base" "$folder"
  # The certificates that this machine trusts: those of a proxy may be among them.
  cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
  printf '%s\n' "$folder"
}

# debian_kept MAJOR: the folder in which this PostgreSQL is built and tested; it keeps its build for the next run.
debian_kept() {
  local folder=$DEBIAN_ROOT/pg$1
  if [ ! -e "$folder/etc/complete" ]; then folder=$(debian_folder "$(suite_of_major "$1")" "pg$1") || exit 1; fi
  debian_give_rust "$folder"
  debian_give_sources "$folder"
  debian_give_pgrx "$folder"
  printf '%s\n' "$folder"
}

# debian_give_rust FOLDER: rustup's toolchains and cargo's downloads are shared, and no program that cargo has installed.
debian_give_rust() {
  local cargo_home=${CARGO_HOME:-$HOME/.cargo} program
  command -v rustup >/dev/null || die "needs a Rust toolchain of rustup"
  mkdir -p "$1/root/.cargo/bin" "$1/root/.cargo/registry" "$1/root/.rustup" "$cargo_home/registry"
  for program in rustup cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
    [ ! -e "$cargo_home/bin/$program" ] || cp -a "$cargo_home/bin/$program" "$1/root/.cargo/bin/"
  done
}

# debian_give_pgrx FOLDER: cargo-pgrx takes minutes to build. If the one of this machine does not run in the folder, scripts/setup builds another.
debian_give_pgrx() {
  local program=${CARGO_HOME:-$HOME/.cargo}/bin/cargo-pgrx
  [ -e "$1/root/.cargo/bin/cargo-pgrx" ] || [ ! -e "$program" ] || cp "$program" "$1/root/.cargo/bin/"
}

# debian_give_sources FOLDER: copies the files that git tracks or would add. Build output in the folder stays.
debian_give_sources() {
  mkdir -p "$1/root/claims"
  find "$1/root/claims" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
  git -C "$CLAIMS_ROOT" ls-files -z --cached --others --exclude-standard |
    tar -C "$CLAIMS_ROOT" --null --files-from=- --ignore-failed-read --warning=no-failed-read -c | tar -C "$1/root/claims" -x
}

# in_debian FOLDER COMMAND: runs a shell in the folder, as root in root's home, with only those variables of this environment that
# DEBIAN_ENV names. Its mounts and its processes end with it.
in_debian() {
  local folder=$1 variable settings=()
  for variable in ${DEBIAN_ENV:-}; do [ -z "${!variable:-}" ] || settings+=("$variable=${!variable}"); done
  cp -L /etc/resolv.conf /etc/hosts "$folder/etc/" 2>/dev/null || true
  # The variables are the inner shell's.
  # shellcheck disable=SC2016
  unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    folder=$1 rustup=$2 cargo=$3
    mount -t proc proc "$folder/proc"
    mount --rbind /dev "$folder/dev"
    if [ -d "$folder/root/.rustup" ]; then
      mount --bind "$rustup" "$folder/root/.rustup"
      mount -o remount,bind,ro "$folder/root/.rustup"
      mount --bind "$cargo/registry" "$folder/root/.cargo/registry"
    fi
    shift 3
    exec chroot "$folder" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" \
      PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
  ' in_debian "$folder" "${RUSTUP_HOME:-$HOME/.rustup}" "${CARGO_HOME:-$HOME/.cargo}" \
    "${settings[@]:+${settings[@]}}" bash -c "cd && $2" </dev/null
}

# try_on_bare [--rust] SUITE NAME SCRIPT MAJOR FILE: runs SCRIPT, one of scripts/try-*, on a bare machine, beside FILE and the statements of README's
# minute. Their output must be that in README. The machine is removed afterwards, unless KEEP_FOLDER is set; --rust gives it a toolchain.
try_on_bare() {
  local rust=no folder suite name script major file examples=$CLAIMS_ROOT/tests/scripts/repository/documents/examples.py differences
  [ "$1" != --rust ] || { rust=yes; shift; }
  suite=$1 name=$2 script=$3 major=$4 file=$5
  folder=$(debian_folder "$suite" "$name") || exit 1
  # shellcheck disable=SC2064
  [ -n "${KEEP_FOLDER:-}" ] || trap "rm -rf --one-file-system '$folder'" EXIT
  if [ $rust = yes ]; then
    debian_give_rust "$folder"
    debian_give_pgrx "$folder"
  fi
  cp "$file" "$CLAIMS_ROOT/scripts/$script" "$CLAIMS_ROOT/scripts/lib-bare.sh" "$folder/root/"
  python3 -B "$examples" "$CLAIMS_ROOT" --script >"$folder/root/minute.sql"
  in_debian "$folder" "bash ./$script $major" || die "on a bare machine ($suite) $script fails with $(basename "$file")"
  differences=$(sed 's/^psql:[^ ]* //' "$folder/root/minute.out" | python3 -B "$examples" "$CLAIMS_ROOT") || die "on a bare machine: $differences"
  echo "ok: README's example prints what README says"
  [ -n "${KEEP_FOLDER:-}" ] || rm -rf --one-file-system "$folder"
}
