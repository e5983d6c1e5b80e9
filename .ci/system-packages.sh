# Sourced: the programs and fonts that are not Python packages, and how they come here.

# command (or font family) that proves it, Debian package
SYSTEM_NEEDS='sshd openssh-server
ssh openssh-client
rsync rsync
busybox busybox
haproxy haproxy
chromium chromium
font:Inter fonts-inter
font:JetBrainsMono fonts-jetbrains-mono
font:NotoSansCJK fonts-noto-cjk'

FONT_DIRS="/usr/share/fonts /usr/local/share/fonts ${HOME:-/nonexistent}/.local/share/fonts ${HOME:-/nonexistent}/.fonts"

has_need() {
    case $1 in
        font:*) [ -n "$(find $FONT_DIRS -name "${1#font:}*" -print 2>/dev/null | head -n 1)" ] ;;
        chromium) PATH=$PATH:/usr/sbin:/sbin command -v chromium chromium-browser google-chrome >/dev/null ;;
        *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
    esac
}

missing_packages() {
    echo "$SYSTEM_NEEDS" | while read -r need package; do
        has_need "$need" || echo "$package"
    done
}

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt() {
    DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin \
        apt-get -qq -o DPkg::Lock::Timeout=600 "$@" </dev/null >/dev/null
}

install_packages() {
    may_install || return 1
    apt install --yes --no-install-recommends "$@" 2>/dev/null && return 0
    apt update && apt install --yes --no-install-recommends "$@"
}

install_system_packages() {
    missing=$(missing_packages | sort -u | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    if may_install; then
        echo "install: adding system packages: $missing"
        install_packages $missing && return 0
    fi
    echo "install: the lab and the browser tests are skipped without these; run as root:"
    echo "    apt-get update && apt-get install --no-install-recommends $missing"
    [ -z "${INSTALL_STRICT:-}" ] || exit 3
}
