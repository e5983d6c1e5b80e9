# Sourced: find uv, or fetch it once into .tools; sets UV (empty when it cannot be had).
UV_SYSTEM_CERTS=1
export UV_SYSTEM_CERTS

find_uv() {
    UV=
    for candidate in "$PWD/.tools/bin/uv" "$(command -v uv || true)"; do
        if [ -n "$candidate" ] && "$candidate" --version >/dev/null 2>&1; then
            UV=$candidate
            return 0
        fi
    done
    "$PYTHON" -m venv .tools >&2 || return 1
    .tools/bin/python -m pip install --quiet --disable-pip-version-check uv >&2 || return 1
    UV=$PWD/.tools/bin/uv
}
