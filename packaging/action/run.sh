#!/usr/bin/env bash
# The GitHub Action. Reads INPUT_COMMAND, INPUT_PATHS, INPUT_ARGS, INPUT_SARIF, GEVALS, and the reference to the action:
# ACTION_REPOSITORY and ACTION_REF. Writes annotations to standard output, outputs to GITHUB_OUTPUT and, for `check`, a summary
# to GITHUB_STEP_SUMMARY (`run` writes its own). Exits with the status of gevals. Written for bash 3.2, the version on macOS, in which
# an empty array counts as unset; hence `${a[@]+"${a[@]}"}`.
set -euo pipefail

output() {
    printf '%s=%s\n' "$1" "$2" >>"${GITHUB_OUTPUT:-/dev/null}"
}

annotate() {
    local text=${1//'%'/%25}
    printf '::error title=gevals::%s\n' "${text//$'\n'/%0A}"
}

# Prints the Rust target of the release for this machine; nothing if there is none.
target() {
    case "$(uname -sm)" in
    "Linux x86_64") echo x86_64-unknown-linux-musl ;;
    "Linux aarch64") echo aarch64-unknown-linux-musl ;;
    "Darwin x86_64") echo x86_64-apple-darwin ;;
    "Darwin arm64") echo aarch64-apple-darwin ;;
    esac
}

sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    else
        shasum -a 256 "$1"
    fi | cut -d ' ' -f 1
}

# Whether the action was referenced by the tag $1, or by the commit of that tag.
is_named_by() {
    local ref=${ACTION_REF:-}
    [ "$ref" = "$1" ] || { [ "${#ref}" = 40 ] && git ls-remote "$url" "refs/tags/$1" "refs/tags/$1^{}" 2>/dev/null | grep -q "^$ref"; }
}

# Sets GEVALS to the program of the release that corresponds to these sources. Returns 1 if there is none, and 3 if its checksum
# does not match.
download() {
    local version name url root file from expected
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$sources/Cargo.toml" | head -1)
    name=gevals-$(target)
    url=${GITHUB_SERVER_URL:-https://github.com}/${ACTION_REPOSITORY:-}
    root=${RUNNER_TEMP:-/tmp}/gevals-$version
    file=$root/$name.tar.gz
    [ "$name" != gevals- ] && [ -n "${ACTION_REPOSITORY:-}" ] && is_named_by "v$version" || return 1
    if [ ! -x "$root/$name/gevals" ]; then
        mkdir -p "$root"
        for from in "$name.tar.gz" checksums.sha256; do
            curl -fsSL --retry 3 -o "$root/$from" "$url/releases/download/v$version/$from" || return 1
        done
        expected=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.gz\$/\1/p" "$root/checksums.sha256")
        if [ "$(sha256 "$file")" != "$expected" ]; then
            annotate "$url/releases/download/v$version/$name.tar.gz does not match checksums.sha256 of this release"
            return 3
        fi
        tar -xzf "$file" -C "$root" || { rm -rf "${root:?}/$name"; return 1; }
    fi
    GEVALS=$root/$name/gevals
}

# Sets GEVALS to the one given, the one on PATH, the release, or one built from these sources (for `check` only the compiler, which is
# faster to build).
find_gevals() {
    local status=0
    if [ -n "${GEVALS:-}" ]; then
        return
    fi
    if command -v gevals >/dev/null; then
        GEVALS=gevals
        return
    fi
    download || status=$?
    [ "$status" = 1 ] || return "$status"
    if ! command -v cargo >/dev/null; then
        annotate "gevals is not on the PATH, there is no release for this version and machine, and no cargo to build one: set the \
input \`gevals\`, or install Rust first"
        return 3
    fi
    local features=(--no-default-features) root=${RUNNER_TEMP:-/tmp}/gevals-$command
    [ "$command" = check ] || features=()
    echo "::group::building gevals, because there is no release for this version and machine"
    if ! cargo install --locked --quiet --root "$root" --path "$sources" ${features[@]+"${features[@]}"}; then
        echo "::endgroup::"
        annotate "gevals could not be built: it requires Rust 1.95 or newer, and a C compiler"
        return 3
    fi
    echo "::endgroup::"
    GEVALS=$root/bin/gevals
}

# Removes the option $1, or its short form $2, from `args`, and sets `value` to its value.
option() {
    local word rest=() next=''
    value=''
    for word in ${args[@]+"${args[@]}"}; do
        if [ -n "$next" ]; then
            value=$word next=''
        elif [ "$word" = "$1" ] || [ "$word" = "${2:-$1}" ]; then
            next=1
        elif [ "${word#"$1="}" != "$word" ]; then
            value=${word#"$1="}
        elif [ -n "${2:-}" ] && [ "${word#"$2"}" != "$word" ]; then
            value=${word#"$2"}
            value=${value#=}
        else
            rest+=("$word")
        fi
    done
    args=(${rest[@]+"${rest[@]}"})
}

gevals_check() {
    "$GEVALS" check ${paths[@]+"${paths[@]}"} ${args[@]+"${args[@]}"} "$@"
}

check() {
    local status=0 again=0 errors value format color
    option --format
    format=${value:-github}
    option --color
    color=${value:-auto}
    # First annotations; then the same findings for code scanning, and their number for the summary.
    gevals_check --format "$format" --color "$color" 2>"$log" || status=$?
    cat "$log" >&2
    if [ -n "${INPUT_SARIF:-}" ] && [ "$status" -le 1 ]; then
        gevals_check --format sarif >"$INPUT_SARIF" || again=$?
        output sarif "$INPUT_SARIF"
    fi
    [ "$again" -le 1 ] || status=$again
    if [ "$status" -le 1 ]; then
        errors=$({ gevals_check --format json || [ $? = 1 ]; } | { grep -o '"level":"error"' || [ $? = 1 ]; } | wc -l) || return 3
        output errors "$((errors))"
        {
            echo "### gevals check"
            echo
            echo '```text'
            gevals_check --format concise --color never || [ $? = 1 ]
            echo '```'
        } >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    fi
    return "$status"
}

run() {
    local status=0 value dir results
    option --output-dir -o
    # Two runs in one job would overwrite each other's results in the same directory.
    dir=${value:-$(mktemp -d "${RUNNER_TEMP:-/tmp}/gevals-XXXXXX")}
    option --color
    "$GEVALS" run ${paths[@]+"${paths[@]}"} ${args[@]+"${args[@]}"} --output-dir "$dir" --color "${value:-never}" 2>&1 | tee "$log" ||
        status=${PIPESTATUS[0]}
    # With several agents or models, each one has its own file. `$began` is older than they are.
    results=$(find "$dir" -name .gevals -prune -o -name 'gevals-*-out.json' -newer "$began" -print 2>/dev/null | sort) || true
    {
        echo 'results<<END-OF-RESULTS'
        echo "$results"
        echo END-OF-RESULTS
    } >>"${GITHUB_OUTPUT:-/dev/null}"
    return "$status"
}

command=${INPUT_COMMAND:-check}
sources=${0%/*}/../..
# Words are split only here, and patterns in them are not expanded.
set -f
read -r -d '' -a paths <<<"${INPUT_PATHS:-.}" || true
read -r -d '' -a args <<<"${INPUT_ARGS:-}" || true
set +f

case $command in
check | run) ;;
*)
    annotate "the action knows the commands \`check\` and \`run\`, not \`$command\`"
    output status 2
    exit 2
    ;;
esac
log=$(mktemp)
began=$(mktemp)
trap 'rm -f "$log" "$began"' EXIT
status=0
find_gevals || status=$?
if [ "$status" = 0 ]; then
    "$command" || status=$?
    # The message of gevals if there are no findings or results.
    if [ "$status" = 2 ] || [ "$status" = 3 ]; then
        annotate "$(sed -n 's/^error: //p' "$log" | head -5 | grep . || echo "gevals $command exited with status $status")"
    fi
fi
output status "$status"
exit "$status"
